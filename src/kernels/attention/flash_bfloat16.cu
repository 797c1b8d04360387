#include "kernels/attention/flash.cuh"

namespace cudaep::kernels {

Status LaunchFlashBFloat16(const AttentionPlan& plan, const FlashArguments& arguments, device::Stream stream) {
  return LaunchFlash<TensorCoreProducts<BFloat16>, true, true>(plan, arguments, stream);
}

}  // namespace cudaep::kernels
