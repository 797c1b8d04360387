#include "kernels/reduce/reduce.cuh"
#include "kernels/reduce/reduce_families.h"

namespace cudaep::kernels {

ReduceKernel FindExtremaKernel(ReduceOp op, DataType type) {
  switch (op) {
    case ReduceOp::kMax:
      return FindReduceIn<Maximum, ReduceOp::kMax>(type);
    case ReduceOp::kMin:
      return FindReduceIn<Minimum, ReduceOp::kMin>(type);
    default:
      return nullptr;
  }
}

}  // namespace cudaep::kernels
