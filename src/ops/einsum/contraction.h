// A contraction of two labelled tensors as matrix products, with as few permuted copies as strides allow. Pure.
#pragma once

#include <optional>
#include <vector>

#include "core/shape.h"
#include "ops/gemm/gemm_plan.h"

namespace cudaep::ops {

// One dimension of a tensor that einsum looks at.
struct LabelAxis {
  int label = 0;
  int64_t size = 1, stride = 0;
  bool operator==(const LabelAxis&) const = default;
};
// A tensor's dimensions, strides descending. Those of size 1 are left out, a diagonal is one dimension.
using LabelView = std::vector<LabelAxis>;

// The dimensions of `axes` as a tensor without gaps, in their order.
LabelView Dense(LabelView axes);
bool IsDense(const LabelView& view);
int64_t Elements(const LabelView& view);
const LabelAxis* FindLabel(const LabelView& view, int label);

struct Contraction {
  bool swapped = false;                         // the product's left operand is b
  std::optional<LabelView> packed_a, packed_b;  // what the operand is copied to before; as it lies otherwise
  LabelView result;
  blas::GemmProblem problem;  // types and flags are the caller's
  std::vector<GemmOffsets> launches;
};

// The sum over `contracted` labels, which both have, of a * b; every other label of either is one of the result.
// `wanted`: how the result should lie. Where copies cost less it lies otherwise, as it may without `wanted`.
Contraction PlaceContraction(const LabelView& a, const LabelView& b, const std::vector<int>& contracted,
                             const LabelView* wanted);

}  // namespace cudaep::ops
