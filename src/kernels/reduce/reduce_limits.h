// What the planner and the kernels of reductions must agree on.
#pragma once

#include "kernels/pack.h"
#include "kernels/reduce/reduce.h"

namespace cudaep::kernels {

inline constexpr int kReduceThreads = 256;  // of the largest block
inline constexpr int64_t kMaxAccumulatorBytes = 24;

// Elements of one access where alignment and dimensions allow it; 1 where only the element-wise kernels exist.
constexpr int ReducePack(ReduceOp op, DataType type) {
  if (op == ReduceOp::kCodeMean) return PackElems(1);
  if (op == ReduceOp::kProd || !kFloatTypesNoDouble.Contains(type)) return 1;
  return PackElems(type == DataType::kFloat ? 4 : 2);
}

// A split reduction's workspace.
inline int64_t ReducePartialBytes(const ReducePlan& plan) { return plan.outputs * plan.splits * kMaxAccumulatorBytes; }

}  // namespace cudaep::kernels
