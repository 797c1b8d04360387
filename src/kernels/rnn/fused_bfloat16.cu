#include "kernels/rnn/fused_step.cuh"

namespace cudaep::kernels {

template <>
FusedLauncher FindFusedStep<BFloat16>(RnnPart part, int groups) {
  return FusedStepOf<BFloat16>(part, groups);
}

}  // namespace cudaep::kernels
