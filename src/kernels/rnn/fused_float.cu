#include "kernels/rnn/fused_step.cuh"

namespace cudaep::kernels {

template <>
FusedLauncher FindFusedStep<float>(RnnPart part, int groups) {
  return FusedStepOf<float>(part, groups);
}

}  // namespace cudaep::kernels
