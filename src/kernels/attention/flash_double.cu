#include "kernels/attention/flash.cuh"

namespace cudaep::kernels {

Status LaunchFlashDouble(const AttentionPlan& plan, const AttentionPointers& at, device::Stream stream) {
  return LaunchFlash<PlainProducts<double, double>, false>(plan, at, stream);
}

}  // namespace cudaep::kernels
