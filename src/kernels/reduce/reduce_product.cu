#include "kernels/reduce/reduce.cuh"
#include "kernels/reduce/reduce_families.h"

namespace cudaep::kernels {

ReduceKernel FindProductKernel(ReduceOp op, DataType type) {
  return op == ReduceOp::kProd ? FindReduceIn<Product, ReduceOp::kProd>(type) : nullptr;
}

}  // namespace cudaep::kernels
