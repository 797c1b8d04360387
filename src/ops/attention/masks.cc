#include "ops/attention/masks.h"

namespace cudaep::ops {

Result<MaskUse> UseIntMask(Dims mask, double filter, MaskForms forms, int64_t past,
                           kernels::AttentionProblem& problem) {
  MaskUse use;
  kernels::AttentionProblem& p = problem;
  p.masked = filter;
  const bool with_begins = forms == MaskForms::kIndex && SameDims(mask, Shape{2 * p.batch});
  if (SameDims(mask, Shape{p.batch}) || SameDims(mask, Shape{3 * p.batch + 2}) || with_begins) {
    use.ends = true;
    if (with_begins) use.begins = p.batch;
    p.key_end_type = DataType::kInt32;
    return use;
  }
  use.flags = true;
  p.mask = kernels::AttentionMask::kInt32;
  kernels::ScoreStrides& strides = p.mask_strides;
  strides = {.key = 1, .keys = p.keys};
  if (SameDims(mask, Shape{p.batch, p.keys})) {
    strides.batch = p.keys;
    return use;
  }
  if (SameDims(mask, Shape{p.batch, p.queries, p.keys})) {
    strides.batch = p.queries * p.keys;
    strides.query = p.keys;
    return use;
  }
  if (forms == MaskForms::kIndex && mask.size() == 4 && mask[0] == p.batch && mask[1] == 1 && mask[2] == mask[3] &&
      mask[2] >= past + p.queries && mask[3] >= p.keys) {
    strides.batch = mask[2] * mask[3];
    strides.query = mask[3];
    use.first_flag = past * mask[3];
    return use;
  }
  return InvalidArgument("mask ", mask, " fits neither a batch of ", p.batch, " nor scores of [", p.queries, ",",
                         p.keys, "]");
}

}  // namespace cudaep::ops
