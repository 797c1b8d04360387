// What the layer normalisation operators share: rows, statistics, broadcasting of scale and shift.
#pragma once

#include "kernels/norm/layer_norm.h"
#include "ops/operator.h"

namespace cudaep::ops {

struct LayerNormPlan : Plan {
  int64_t rows = 1, elems = 1;
  int64_t skip_rows = 1;
  kernels::AffineMap scale, beta;
  kernels::LayerNormPlans kernel;
};

// How `operand` broadcasts to `input` normalised from `axis` on; `what` is its name for messages. kNotSupported for a
// shape that repeats within the rows or within the columns more than once (such as [2,1,3] of [2,4,3]).
Result<kernels::AffineMap> MapAffine(Dims input, int axis, Dims operand, std::string_view what);

// The kernel that the option norm_path names.
kernels::NormChoice ForcedKernel(NormPath path);

// Checks the only type of statistics that exists, fp32, for operators with a `stash_type`.
Status CheckStashType(const OpInfo& info);

}  // namespace cudaep::ops
