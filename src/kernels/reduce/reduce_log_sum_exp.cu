#include "kernels/reduce/reduce.cuh"
#include "kernels/reduce/reduce_families.h"

namespace cudaep::kernels {

ReduceKernel FindLogSumExpKernel(ReduceOp op, DataType type) {
  return op == ReduceOp::kLogSumExp ? FindReduceIn<LogSumExp, ReduceOp::kLogSumExp>(type) : nullptr;
}

}  // namespace cudaep::kernels
