// Softmax of 8-bit integers that stand for reals, with or without a mask that is added before.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"
#include "kernels/fast_divide.h"
#include "kernels/quant/code_rounding.h"

namespace cudaep::kernels {

// Of scores with a mask.
inline constexpr size_t kMostMaskedRank = 4;

// A tensor [of 3 sizes, axis] that is added to the scores. Sums are rounded to codes.
struct SoftmaxMask {
  DataType type = DataType::kUndefined;  // kFloat, or kInt8 or kUint8 in `coding`; none otherwise
  CodeCoding coding, scores;
  CodeRounding sum;
  FastDivider heads, queries;                // sizes of the rows' last two dimensions
  int64_t stride[kMostMaskedRank - 1] = {};  // of mask elements: batch, head, query; 0: the same for all
};

// Over the middle one of [outer, axis, inner]; with a mask, inner is 1 and outer below 2^31. A code that lies d below
// its row's largest adds exp(-d * scale) to the sum; y = code of its share of that.
struct QLinearSoftmax {
  int64_t outer = 0, axis = 0, inner = 1;
  float scale = 1;      // of the codes that Softmax is of
  uint32_t x_flip = 0;  // CodeCoding
  CodeRounding y;
  SoftmaxMask mask;
};

// `mask` is null without one.
Status LaunchQLinearSoftmax(const QLinearSoftmax& softmax, const void* x, const void* mask, void* y,
                            device::Stream stream);

}  // namespace cudaep::kernels
