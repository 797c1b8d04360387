#include "kernels/rnn/rnn_cells.cuh"

namespace cudaep::kernels {

Status LaunchGruReset(const RnnShape& shape, DataType type, const RnnPointers& at, int64_t step,
                      device::Stream stream) {
  return LaunchRnnGates<GruResetCell>(shape, type, at, step, stream);
}

Status LaunchGruStep(const RnnShape& shape, DataType type, const RnnPointers& at, int64_t step, device::Stream stream) {
  if (shape.linear_before_reset) return LaunchRnnGates<GruCell>(shape, type, at, step, stream);
  return LaunchRnnGates<GruProposalCell>(shape, type, at, step, stream);
}

}  // namespace cudaep::kernels
