// Reductions of any axes of a tensor: sums, means, extrema and where they are, products, norms, log-sum-exp.
//
// Dimensions are coalesced into kept and reduced ones; each output is computed by some threads of a block, and by
// several blocks where there are few outputs and much to reduce: those leave partial results in the workspace and the
// last block to finish merges them in a fixed order, so results are reproducible. One kernel launch.
//
// Numerics: 16-bit floats accumulate in fp32; integers in 64 bits (sums and products wrap, means truncate). A NaN makes
// every floating point reduction NaN, extrema too. Reducing nothing gives the identity: 0 for sums, 1 for products,
// the lowest or highest value (-/+infinity) for extrema, NaN for a floating point mean, -infinity for logarithms.
//
// kVarianceScale, kL1Scale and kL2Scale write by what a normalisation shifts and scales each element (NormScale):
// shift = mean and factor = 1 / deviation, or 0 and one over the norm, which is 0 where the norm is.
//
// kCodeMean writes the codes of means of codes (quant/qlinear_mean.h).
//
// kArgMax and kArgMin write int64 positions of the extremum among the reduced elements, counted as they lie in memory
// (the index along a single axis). NaN is the extremum, as for numpy; equal elements, NaNs among themselves too, are
// told apart by `last`. At most 2^31 - 1 elements are reduced into each; of none the result is 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/data_type.h"
#include "core/dims.h"
#include "core/status.h"
#include "device/device.h"
#include "kernels/fast_divide.h"
#include "kernels/quant/qlinear_mean.h"

namespace cudaep::kernels {

enum class ReduceOp : uint8_t {
  kSum,
  kMean,
  kMax,
  kMin,
  kProd,
  kSumSquare,
  kL1,
  kL2,
  kLogSum,
  kLogSumExp,
  kArgMax,
  kArgMin,
  kVarianceScale,
  kL1Scale,
  kL2Scale,
  kCodeMean
};

// y = (x - shift) * factor. fp64 for reductions of doubles, else fp32.
template <class C>
struct NormScale {
  C shift, factor;
};

// The element types that an operation has kernels for.
constexpr DataTypeSet ReduceTypes(ReduceOp op) {
  constexpr DataTypeSet kCommon = kFloatTypes | kIndexTypes | DataTypeSet{DataType::kUint32, DataType::kUint64};
  if (op == ReduceOp::kArgMax || op == ReduceOp::kArgMin) return kNumericTypes;
  if (op == ReduceOp::kCodeMean) return kInt8Types;
  if (op >= ReduceOp::kVarianceScale) return kFloatTypes;
  if (op != ReduceOp::kMax && op != ReduceOp::kMin) return kCommon;
  return kCommon | DataTypeSet{DataType::kInt8, DataType::kUint8, DataType::kBool};
}

inline constexpr int kMaxReduceRank = 8;

// Coalesced dimensions of one kind, innermost first, with their strides in the input; empty kinds have one of size 1.
struct ReduceDims {
  int32_t rank = 0;
  int32_t wide = 0;  // whether elements are counted with 64 bits (kernels/index_limit.h)
  int64_t elems = 1;
  int64_t size[kMaxReduceRank] = {};
  int64_t stride[kMaxReduceRank] = {};
  FastDivider divider[kMaxReduceRank];  // of size; not valid where `wide`
};

struct ReducePlan {
  ReduceDims kept, reduced;  // the packed one counts packs in its innermost dimension
  bool columns = false;      // threads along outputs (x) and reduced elements (y); else along reduced elements (x)
  int row_pack = 1;          // elements of one access along the reduction,
  int column_pack = 1;       // or along the outputs; at most one of them is not 1
  int64_t outputs = 0;       // elements
  int64_t count = 0;         // elements reduced into each output
  unsigned width = 32, height = 1;  // of a block
  int splits = 1;                   // blocks that share an output
  size_t workspace_bytes = 0;
  bool needs_tickets() const { return splits > 1; }
};

// Of the counters by which blocks that share outputs find out which of them is the last. They belong to the stream
// (runtime/stream_context.h) and are zero between kernels.
inline constexpr int kReduceTickets = 4096;

// Pure. `reduced[i]` says whether dimension i of `dims` goes. kNotSupported when more than kMaxReduceRank kept or
// reduced dimensions remain after coalescing, or for positions beyond 2^31. Without `packed` elements are accessed one
// by one.
// `forced_splits` is what a test or a measurement wants instead of the planner's choice: kInvalidArgument where there
// are fewer elements to reduce or too many outputs for it.
Result<ReducePlan> PlanReduce(Dims dims, std::span<const bool> reduced, ReduceOp op, DataType type, int multiprocessors,
                              bool packed = true, int forced_splits = 0);

struct ReduceArgs {
  ReduceOp op = ReduceOp::kSum;
  const void* x = nullptr;
  void* y = nullptr;
  void* workspace = nullptr;    // the plan's bytes
  unsigned* tickets = nullptr;  // of a plan that needs_tickets(): kReduceTickets zeros, which it leaves as zeros
  bool last = false;            // of equal extrema the last one's position counts, not the first one's
  double epsilon = 0;           // of kVarianceScale: added to the variance, or to the deviation
  bool deviation_epsilon = false;
  QLinearMean mean;  // of kCodeMean
  const ReducePlan* plan = nullptr;
};

using ReduceKernel = Status (*)(const ReduceArgs& args, device::Stream stream);

// Null when the operation has no kernel for the type.
ReduceKernel FindReduceKernel(ReduceOp op, DataType type);

}  // namespace cudaep::kernels
