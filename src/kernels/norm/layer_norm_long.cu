#include "core/data_type_traits.h"
#include "kernels/norm/layer_norm_long_launch.cuh"

namespace cudaep::kernels {
namespace {

Status Refused(DataType x, DataType y) {
  return NotSupported("normalisation of long rows of ", DataTypeName(x), " to ", DataTypeName(y));
}

}  // namespace

Status LaunchLayerNormLong(const LayerNormArgs& args, device::Stream stream) {
  const Status refused = Refused(args.x_type, args.y_type);
  if (args.x_type != args.y_type || args.skip != nullptr) return refused;
  if (args.x_type == DataType::kFloat) return LaunchLayerNormLongFloat(args, stream);
  return VisitType<kFloat16Types>(args.x_type, refused, [&]<class T>() { return LaunchLong<T>(args, stream); });
}

Result<int> ActiveLongClusters(DataType type, const NormPlan& plan) {
  if (type == DataType::kFloat) return ActiveLongClustersFloat(plan);
  return VisitType<kFloat16Types>(type, Result<int>(Refused(type, type)),
                                  [&]<class T>() { return ActiveLongClustersOf<T>(plan); });
}

}  // namespace cudaep::kernels
