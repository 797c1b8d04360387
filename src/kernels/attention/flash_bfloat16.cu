#include "kernels/attention/flash.cuh"

namespace cudaep::kernels {

Status LaunchFlashBFloat16(const AttentionPlan& plan, const AttentionPointers& at, device::Stream stream) {
  return LaunchFlash<TensorCoreProducts<BFloat16>, true>(plan, at, stream);
}

}  // namespace cudaep::kernels
