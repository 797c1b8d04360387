// Sums of products as codes, as code_product.h says.
#pragma once

#include "device/launch.h"
#include "device/rounded.h"
#include "kernels/quant/code_product.h"
#include "kernels/quant/code_rounding.cuh"

namespace cudaep::kernels {

// Of a column: (sum + shift) * factor is the number by the scale of the first step, which leaves a whole one; that by
// the last step's scale is added to `bias`. Without a first step the product is.
struct CodeColumn {
  float factor, shift, bias;
};

// What a column has in memory; of all columns of a thread it is asked for before any is looked at.
struct CodeNumbers {
  float scale, shift, bias;
};
__device__ __forceinline__ CodeNumbers CodeNumbersOf(const CodeFinish& p, int64_t n) {
  return {p.scale[n], p.shift == nullptr ? 0.0f : p.shift[n], p.bias == nullptr ? 0.0f : p.bias[n]};
}

template <bool kFirst>
__device__ __forceinline__ CodeColumn CodeColumnOf(const CodePart& p, const CodeNumbers& of) {
  const float factor = of.scale * (kFirst ? p.first.inverse : p.last.inverse);
  return {factor, of.shift, of.bias * p.last.inverse};
}

// The nearest code in the lowest bits.
__device__ __forceinline__ float WholeBits(const CodeStep& step, float x) {
  return fminf(fmaxf(x, step.least), step.most) + kWholeNumbers;
}

// The code in the lowest byte, other bits behind it. A table lies in shared memory.
template <bool kFirst, bool kTable>
__device__ __forceinline__ uint32_t CodeOf(const CodePart& p, int32_t sum, const CodeColumn& column,
                                           const uint8_t* table) {
  // What is left of two large numbers is exact, and nothing where the operand stands for zeros.
  float x = static_cast<float>(sum) + column.shift;
  if constexpr (kFirst) x = WholeBits(p.first, device::RoundedProduct(x, column.factor)) - kWholeNumbers;
  x = fmaf(x, kFirst ? p.ratio : column.factor, column.bias);
  const uint32_t code = std::bit_cast<uint32_t>(WholeBits(p.last, x)) + static_cast<uint32_t>(p.added);
  return kTable ? table[code & 0xff] : code;
}

}  // namespace cudaep::kernels
