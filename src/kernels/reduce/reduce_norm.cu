#include "kernels/reduce/reduce.cuh"
#include "kernels/reduce/reduce_families.h"

namespace cudaep::kernels {

ReduceKernel FindNormKernel(ReduceOp op, DataType type) {
  switch (op) {
    case ReduceOp::kSumSquare:
      return FindReduceIn<SumOfSquares, ReduceOp::kSumSquare>(type);
    case ReduceOp::kL2:
      return FindReduceIn<SumOfSquares, ReduceOp::kL2>(type);
    case ReduceOp::kL1:
      return FindReduceIn<SumOfMagnitudes, ReduceOp::kL1>(type);
    default:
      return nullptr;
  }
}

}  // namespace cudaep::kernels
