#include "kernels/reduce/reduce.cuh"
#include "kernels/reduce/reduce_families.h"

namespace cudaep::kernels {

ReduceKernel FindSumKernel(ReduceOp op, DataType type) {
  switch (op) {
    case ReduceOp::kSum:
      return FindReduceIn<Sum, ReduceOp::kSum>(type);
    case ReduceOp::kMean:
      return FindReduceIn<Sum, ReduceOp::kMean>(type);
    case ReduceOp::kLogSum:
      return FindReduceIn<Sum, ReduceOp::kLogSum>(type);
    default:
      return nullptr;
  }
}

}  // namespace cudaep::kernels
