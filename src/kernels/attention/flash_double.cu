#include "kernels/attention/flash.cuh"

namespace cudaep::kernels {

Status LaunchFlashDouble(const AttentionPlan& plan, const FlashArguments& arguments, device::Stream stream) {
  return LaunchFlash<PlainProducts<double, double>, false, false>(plan, arguments, stream);
}

}  // namespace cudaep::kernels
