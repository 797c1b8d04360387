// The files that hold reduction kernels; FindReduceKernel asks each in turn.
#pragma once

#include "kernels/reduce/reduce.h"

namespace cudaep::kernels {

ReduceKernel FindSumKernel(ReduceOp op, DataType type);
ReduceKernel FindNormKernel(ReduceOp op, DataType type);
ReduceKernel FindExtremaKernel(ReduceOp op, DataType type);
ReduceKernel FindPositionKernel(ReduceOp op, DataType type);
ReduceKernel FindProductKernel(ReduceOp op, DataType type);
ReduceKernel FindLogSumExpKernel(ReduceOp op, DataType type);
ReduceKernel FindNormScaleKernel(ReduceOp op, DataType type);
ReduceKernel FindCodeKernel(ReduceOp op, DataType type);

}  // namespace cudaep::kernels
