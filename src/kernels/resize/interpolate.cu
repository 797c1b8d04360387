#include "kernels/resize/interpolate.cuh"

namespace cudaep::kernels {
namespace resize {

Launcher FindFloatLauncher(DataType type) {
  return VisitType<kFloatTypes, Launcher>(type, nullptr, [&]<class T>() { return &LaunchAs<T>; });
}

}  // namespace resize

Status LaunchResizeInterpolate(const ResizeShape& shape, const Interpolation& how, DataType type, const void* x,
                               void* y, device::Stream stream) {
  if (const auto launched = resize::LaunchPlanes(shape, how, type, x, y, stream)) return *launched;
  for (const auto find : {resize::FindFloatLauncher, resize::FindNarrowLauncher, resize::FindWideLauncher}) {
    if (const resize::Launcher launch = find(type)) return launch(shape, how, x, y, stream);
  }
  return NotSupported("interpolation of element type ", DataTypeName(type));
}

}  // namespace cudaep::kernels
