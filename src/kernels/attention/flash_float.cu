#include "kernels/attention/flash.cuh"

namespace cudaep::kernels {

Status LaunchFlashFloat(const AttentionPlan& plan, const FlashArguments& arguments, device::Stream stream) {
  return LaunchFlash<PlainProducts<float, float>, true, false>(plan, arguments, stream);
}

}  // namespace cudaep::kernels
