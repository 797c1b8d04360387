#include "kernels/rnn/rnn_cells.cuh"

namespace cudaep::kernels {

Status LaunchLstmStep(const RnnShape& shape, DataType type, const RnnPointers& at, int64_t step,
                      device::Stream stream) {
  return LaunchRnnGates<LstmCell>(shape, type, at, step, stream);
}

}  // namespace cudaep::kernels
