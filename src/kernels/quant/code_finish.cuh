// Sums of products as codes, as code_product.h says.
#pragma once

#include "device/launch.h"
#include "kernels/quant/code_product.h"
#include "kernels/quant/whole_range.cuh"

namespace cudaep::kernels {

// Of a column: (sum + shift) * factor is the number by the scale of the first step, by 256, and `start` begins its
// range of whole ones; what is left by the last step's scale, and the bias by that scale, are the number again.
struct CodeColumn {
  float factor, shift, start;
};

// What a column has in memory; of all columns of a thread it is asked for before any is looked at.
struct CodeNumbers {
  float scale, shift, bias;
};
__device__ __forceinline__ CodeNumbers CodeNumbersOf(const CodeFinish& p, int64_t n) {
  return {p.scale[n], p.shift == nullptr ? 0.0f : p.shift[n], p.bias == nullptr ? 0.0f : p.bias[n]};
}

// What all columns of a part have.
struct CodeRanges {
  WholeRange first, last;
  float ratio;  // by 256
  float added;  // to whole numbers of the last step

  static __device__ __forceinline__ CodeRanges Of(const CodePart& part) {
    return {WholeRange::Of(part.first.least, part.first.most), WholeRange::Of(part.last.least, part.last.most),
            part.ratio * kByWholeRange, static_cast<float>(part.added)};
  }
};

template <bool kFirst>
__device__ __forceinline__ CodeColumn CodeColumnOf(const CodePart& p, const CodeNumbers& of) {
  const float inverse = kFirst ? p.first.inverse : p.last.inverse;
  return {of.scale * inverse * kByWholeRange, of.shift, (of.bias * p.last.inverse - p.last.least) * kByWholeRange};
}

// The code in the lowest byte, other bits behind it. A table lies in shared memory.
template <bool kFirst, bool kTable>
__device__ __forceinline__ uint32_t CodeOf(const CodeRanges& of, int32_t sum, const CodeColumn& column,
                                           const uint8_t* table) {
  // What is left of two large numbers is exact, and nothing where the operand stands for zeros.
  float x = static_cast<float>(sum) + column.shift;
  if constexpr (kFirst) x = WholeBits(of.first, x, column.factor, of.first.start) - kWholeNumbers;
  const auto code =
      std::bit_cast<uint32_t>(WholeBits(of.last, x, kFirst ? of.ratio : column.factor, column.start) + of.added);
  return kTable ? table[code & 0xff] : code;
}

}  // namespace cudaep::kernels
