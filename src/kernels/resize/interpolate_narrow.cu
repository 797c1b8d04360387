#include "kernels/resize/interpolate.cuh"

namespace cudaep::kernels::resize {

Launcher FindNarrowLauncher(DataType type) {
  constexpr DataTypeSet kTypes{DataType::kInt8, DataType::kUint8, DataType::kInt16, DataType::kUint16};
  return VisitType<kTypes, Launcher>(type, nullptr, [&]<class T>() { return &LaunchAs<T>; });
}

}  // namespace cudaep::kernels::resize
