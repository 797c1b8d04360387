#include "kernels/attention/flash.cuh"

namespace cudaep::kernels {

Status LaunchFlashHalf(const AttentionPlan& plan, const FlashArguments& arguments, device::Stream stream) {
  return LaunchFlash<TensorCoreProducts<Half>, true, true>(plan, arguments, stream);
}

}  // namespace cudaep::kernels
