#include "kernels/rnn/fused_step.cuh"

namespace cudaep::kernels {

template <>
FusedLauncher FindFusedStep<Half>(RnnPart part, int groups) {
  return FusedStepOf<Half>(part, groups);
}

}  // namespace cudaep::kernels
