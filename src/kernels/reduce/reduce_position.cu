#include "kernels/reduce/reduce.cuh"
#include "kernels/reduce/reduce_families.h"

namespace cudaep::kernels {

ReduceKernel FindPositionKernel(ReduceOp op, DataType type) {
  switch (op) {
    case ReduceOp::kArgMax:
      return FindReduceIn<ArgMaximum, ReduceOp::kArgMax>(type);
    case ReduceOp::kArgMin:
      return FindReduceIn<ArgMinimum, ReduceOp::kArgMin>(type);
    default:
      return nullptr;
  }
}

}  // namespace cudaep::kernels
