#include "kernels/resize/interpolate.cuh"

namespace cudaep::kernels::resize {

Launcher FindWideLauncher(DataType type) {
  constexpr DataTypeSet kTypes{DataType::kInt32, DataType::kUint32, DataType::kInt64, DataType::kUint64};
  return VisitType<kTypes, Launcher>(type, nullptr, [&]<class T>() { return &LaunchAs<T>; });
}

}  // namespace cudaep::kernels::resize
