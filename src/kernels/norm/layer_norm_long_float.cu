#include "kernels/norm/layer_norm_long_launch.cuh"

namespace cudaep::kernels {

Status LaunchLayerNormLongFloat(const LayerNormArgs& args, device::Stream stream) {
  return LaunchLong<float>(args, stream);
}
Result<int> ActiveLongClustersFloat(const NormPlan& plan) { return ActiveLongClustersOf<float>(plan); }

}  // namespace cudaep::kernels
