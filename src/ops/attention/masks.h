// The int32 masks of com.microsoft's attention operators: lengths of keys, or 0 and 1 for each key.
#pragma once

#include "kernels/attention/attention.h"
#include "ops/attention/attention_step.h"

namespace cudaep::ops {

// Which of the kernel's inputs the mask is.
struct MaskUse {
  bool ends = false;    // it holds the ends of the keys,
  int64_t begins = -1;  // and from this element on where they begin; -1: not
  bool flags = false;   // it holds 0 and 1, from this element on:
  int64_t first_flag = 0;

  void Place(const void* mask, kernels::AttentionPointers& at) const {
    if (ends) at.key_end = mask;
    if (begins >= 0) at.key_begin = static_cast<const int32_t*>(mask) + begins;
    if (flags) at.mask = static_cast<const int32_t*>(mask) + first_flag;
  }
};

enum class MaskForms : uint8_t {
  kPadding,  // [batch] ends, [3 * batch + 2] that begin with them, [batch, keys] and [batch, queries, keys] flags
  kIndex,    // these; [2 * batch] ends and then begins; [batch, 1, most, most] flags, query i having row past + i
};

// Fills the masks of `problem`, whose other sizes are known. `filter` is added to the scores of hidden keys.
Result<MaskUse> UseIntMask(Dims mask, double filter, MaskForms forms, int64_t past, kernels::AttentionProblem& problem);

}  // namespace cudaep::ops
