// Sums of products as codes, as code_product.h says.
#pragma once

#include <bit>

#include "device/launch.h"
#include "kernels/quant/code_product.h"
#include "kernels/quant/whole_range.cuh"

namespace cudaep::kernels {

// Of a column, as WholeRange::Bits takes them: the factor of sum + shift for the first step there is, and the last
// step's start with the bias.
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
  WholeRange first, last;  // the last one's factor is that of whole numbers of the first
  float added;             // to whole numbers of the last

  static __device__ __forceinline__ CodeRanges Of(const CodePart& part) {
    return {WholeRange::Of(part.first.least, part.first.most),
            WholeRange::Of(part.last.least, part.last.most, part.ratio), static_cast<float>(part.added)};
  }
};

template <bool kFirst>
__device__ __forceinline__ CodeColumn CodeColumnOf(const CodePart& p, const CodeNumbers& of) {
  const float inverse = kFirst ? p.first.inverse : p.last.inverse;
  return {of.scale * inverse * kInverseWholeRange, of.shift,
          (of.bias * p.last.inverse - p.last.least) * kInverseWholeRange};
}

// The code in the lowest byte, other bits behind it. A table lies in shared memory.
template <bool kFirst, bool kTable>
__device__ __forceinline__ uint32_t CodeOf(const CodeRanges& of, int32_t sum, const CodeColumn& column,
                                           const uint8_t* table) {
  // What is left of two large numbers is exact, and nothing where the operand stands for zeros.
  float x = static_cast<float>(sum) + column.shift;
  if constexpr (kFirst) x = of.first.Whole(x, column.factor, of.first.scaled_start);
  const float factor = kFirst ? of.last.scaled_factor : column.factor;
  const auto code = std::bit_cast<uint32_t>(of.last.Bits(x, factor, column.start) + of.added);
  return kTable ? table[code & 0xff] : code;
}

}  // namespace cudaep::kernels
