// The part that Reduce* and Global*Pool share: a plan for packed accesses and one for pointers that do not allow them.
// The two add in different orders, so a deterministic reduction of floats has only the first: what lies where it cannot
// be read in packs is copied, in memory of the call.
#pragma once

#include "kernels/reduce/reduce.h"
#include "ops/operator.h"

namespace cudaep::ops {

struct ReductionPlan : Plan {
  kernels::ReducePlan packed, unpacked;
  size_t copied_elem_bytes = 0;  // of a deterministic one that packs; 0 for all others
  bool needs_tickets() const { return packed.needs_tickets() || unpacked.needs_tickets(); }
};

// A reduction of a tensor of any shape within an operator; `reduced` has one entry for each of `dims`. `deterministic`:
// the same bits wherever the tensors lie, for results of the element type.
Result<std::unique_ptr<ReductionPlan>> PlanReductionOf(kernels::ReduceOp op, Dims dims, std::span<const bool> reduced,
                                                       DataType type, const PlanContext& context,
                                                       bool deterministic = false);

// Sets tickets and plan of `args`, and launches.
Status EnqueueReductionOf(kernels::ReduceKernel kernel, const ReductionPlan& plan, const OpContext& context,
                          kernels::ReduceArgs args);

// Of input 0 to output 0, the plan's workspace being the reduction's.
Result<PlanPtr> PlanReduction(kernels::ReduceOp op, const PlanContext& context, std::span<const bool> reduced,
                              bool deterministic = false);

// `last`: of equal extrema, where positions are asked for.
Status EnqueueReduction(kernels::ReduceOp op, kernels::ReduceKernel kernel, const Plan& plan, const OpContext& context,
                        bool last = false);

// One flag a dimension.
class DimFlags {
 public:
  DimFlags() = default;
  explicit DimFlags(size_t rank, bool value = false) : flags_(new bool[rank]), rank_(rank) {
    std::fill_n(flags_.get(), rank, value);
  }
  bool& operator[](size_t i) { return flags_[i]; }
  bool operator[](size_t i) const { return flags_[i]; }
  size_t size() const { return rank_; }
  operator std::span<const bool>() const { return {flags_.get(), rank_}; }  // NOLINT(google-explicit-constructor)

 private:
  std::unique_ptr<bool[]> flags_;
  size_t rank_ = 0;
};

}  // namespace cudaep::ops
