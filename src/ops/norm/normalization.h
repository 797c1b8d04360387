// Normalisation of a tensor over some of its dimensions, with statistics of its own: what InstanceNormalization,
// GroupNormalization, LpNormalization and MeanVarianceNormalization share.
//
// Contiguous rows that fit the registers of a block or the shared memory of a cluster take one launch
// (kernels/norm/layer_norm.h), and so do longer ones and those that are made of segments, which teams of blocks share
// (kernels/norm/segment_norm.h). Others take two: a reduction that any number of blocks may share, whose partial
// results are merged in a fixed order, and the normalisation itself. Tensors beyond the L2 cache are cut into parts
// that it holds between the two.
#pragma once

#include "kernels/norm/layer_norm.h"
#include "kernels/norm/normalize.h"
#include "kernels/norm/segment_norm.h"
#include "ops/reduce/reduction.h"

namespace cudaep::ops {

// The input as an operator sees it, its groups in a dimension of their own.
struct NormView {
  Shape dims;
  DimFlags reduced;   // one flag a dimension
  Shape affine = {};  // of scale and bias; broadcasts to `dims`
};

// The input's channels in `groups` that divide them, each group of each sample by itself. Scale and bias have a value
// for each channel, or with `group_affine` for each group.
NormView ViewGroups(Dims x, int64_t groups, bool channels_last, bool group_affine = false);

struct NormSpec {
  DataType type = DataType::kUndefined;
  DataType affine_type = DataType::kUndefined;                         // of scale and bias, where there are any
  kernels::RowStatistic statistic = kernels::RowStatistic::kVariance;  // any but kRms
  bool l1 = false;                                                     // instead of kL2
  double epsilon = 0;
  bool swish = false;
};

struct NormalizationPlan : Plan {
  // One launch:
  bool by_rows = false;
  int64_t rows = 0, elems = 0;
  kernels::AffineMap map;
  kernels::LayerNormPlans kernel;
  // One launch too, where x and y allow packs:
  std::optional<kernels::SegmentNormPlan> segments;
  kernels::SegmentedRows segment_rows;
  int64_t affine_rows = 1;
  bool affine_segments = false;
  // Two launches for each part: `outer` times, `size` slices cut into runs of `chunk`, the last maybe shorter.
  struct Part {
    std::unique_ptr<ReductionPlan> reduction;
    kernels::Broadcast<2> broadcast;  // of statistics and of scale and bias
  };
  Part part, last;
  int64_t outer = 1, size = 1, chunk = 1;
  int64_t slice_elems = 0;
  Shape outer_dims, outer_affine;  // of the loop over `outer`
  int64_t slice_affine = 0;        // elements of scale and bias from one slice to the next
  size_t statistics = 0, partials = 0;
};

class Normalization {
 public:
  explicit Normalization(const NormSpec& spec) : spec_(spec) {}

  // Of the first input, seen as `view`.
  Result<PlanPtr> MakePlan(const NormView& view, const PlanContext& context) const;
  // Input 0 to output 0; scale and bias may be null.
  Status Enqueue(const Plan& plan, const OpContext& context, const void* scale, const void* bias) const;

 private:
  Status PlanSegments(const NormView& view, const PlanContext& context, NormalizationPlan& plan) const;
  Status EnqueueSegments(const NormalizationPlan& plan, const OpContext& context, const void* scale,
                         const void* bias) const;
  Status PlanParts(const NormView& view, const PlanContext& context, NormalizationPlan& plan) const;
  Result<NormalizationPlan::Part> PlanPart(Dims dims, std::span<const bool> reduced, Dims affine,
                                           const PlanContext& context) const;
  Status EnqueuePart(const NormalizationPlan& plan, const NormalizationPlan::Part& part, const OpContext& context,
                     int64_t first_elem, const void* scale, const void* bias) const;
  kernels::ReduceOp Op() const;

  NormSpec spec_;
};

}  // namespace cudaep::ops
