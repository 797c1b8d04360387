// Sums of products as codes, as code_product.h says.
#pragma once

#include "device/launch.h"
#include "kernels/quant/code_product.h"

namespace cudaep::kernels {

// Of a column: sum * factor + offset is the number by the scale of the first step, or of the last where that is the
// only one; what the first leaves is added to `bias` by that of the last.
struct CodeColumn {
  float factor, offset, bias, unused;
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
  const float factor = of.scale * (kFirst ? p.first.inverse : p.last.inverse), offset = of.shift * factor;
  const float bias = of.bias * p.last.inverse;
  return kFirst ? CodeColumn{factor, offset, bias, 0.0f} : CodeColumn{factor, offset + bias, 0.0f, 0.0f};
}

// Added to a number it leaves the nearest whole one in the lowest bits of the sum; taken off again, that number.
inline constexpr float kWholeNumbers = 0x1.8p23f;

__device__ __forceinline__ float WholeBits(const CodeStep& step, float x) {
  return fminf(fmaxf(x, step.least), step.most) + kWholeNumbers;
}

// The code in the lowest byte, other bits behind it. A table lies in shared memory.
template <bool kFirst, bool kTable>
__device__ __forceinline__ uint32_t CodeOf(const CodePart& p, int32_t sum, const CodeColumn& column,
                                           const uint8_t* table) {
  float x = fmaf(static_cast<float>(sum), column.factor, column.offset);
  if constexpr (kFirst) x = fmaf(WholeBits(p.first, x) - kWholeNumbers, p.ratio, column.bias);
  const uint32_t code = std::bit_cast<uint32_t>(WholeBits(p.last, x)) + static_cast<uint32_t>(p.added);
  return kTable ? table[code & 0xff] : code;
}

// Four codes as bytes of a word, the first one lowest.
__device__ __forceinline__ uint32_t JoinBytes(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
#else
  return (a & 0xff) | (b & 0xff) << 8 | (c & 0xff) << 16 | d << 24;
#endif
}

}  // namespace cudaep::kernels
