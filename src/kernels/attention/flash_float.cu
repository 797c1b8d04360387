#include "kernels/attention/flash.cuh"

namespace cudaep::kernels {

Status LaunchFlashFloat(const AttentionPlan& plan, const AttentionPointers& at, device::Stream stream) {
  return LaunchFlash<PlainProducts<float, float>, true>(plan, at, stream);
}

}  // namespace cudaep::kernels
