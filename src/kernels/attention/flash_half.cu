#include "kernels/attention/flash.cuh"

namespace cudaep::kernels {

Status LaunchFlashHalf(const AttentionPlan& plan, const AttentionPointers& at, device::Stream stream) {
  return LaunchFlash<TensorCoreProducts<Half>, true>(plan, at, stream);
}

}  // namespace cudaep::kernels
