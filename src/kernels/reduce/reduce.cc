#include "kernels/reduce/reduce.h"

#include "kernels/reduce/reduce_families.h"

namespace cudaep::kernels {

ReduceKernel FindReduceKernel(ReduceOp op, DataType type) {
  for (auto find : {FindSumKernel, FindNormKernel, FindExtremaKernel, FindPositionKernel, FindProductKernel,
                    FindLogSumExpKernel, FindNormScaleKernel, FindCodeKernel}) {
    if (ReduceKernel kernel = find(op, type)) return kernel;
  }
  return nullptr;
}

}  // namespace cudaep::kernels
