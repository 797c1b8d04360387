// Sums of products as codes, as code_product.h says.
#pragma once

#include "device/launch.h"
#include "kernels/quant/code_product.h"
#include "kernels/quant/whole_range.cuh"

namespace cudaep::kernels {

// Of a column, as WholeRange::Bits takes them: the factor of sum + shift for the first step there is, and the last
// step's start with the bias.
struct CodeColumn {
  float factor, shift, start;
};

// What all columns of a part have.
struct CodeRanges {
  WholeRange first, last;  // the last one's factor is that of whole numbers of the first
  WholeBytes bytes;        // of the last

  static __device__ __forceinline__ CodeRanges Of(const CodePart& part) {
    const auto last = WholeRange::Of(part.last.least, part.last.most, part.ratio);
    return {WholeRange::Of(part.first.least, part.first.most), last, WholeBytes::Of(last, part.zero)};
  }
};

// Of column n, which may be beyond the last one.
template <bool kFirst>
__device__ __forceinline__ CodeColumn CodeColumnOf(const CodeFinish& p, const CodePart& part, int n) {
  const auto of = [&](const float* numbers) { return numbers == nullptr || n >= p.n ? 0.0f : numbers[n]; };
  const float inverse = kFirst ? part.first.inverse : part.last.inverse;
  return {of(p.scale) * inverse * kInverseWholeRange, of(p.shift),
          (of(p.bias) * part.last.inverse - part.last.least) * kInverseWholeRange};
}

// A table in shared memory: an index that would be 256 has the last entry too.
inline constexpr int kCodeTable = 257;
__device__ __forceinline__ void BringCodeTable(uint8_t (&to)[kCodeTable], const uint8_t* table, int thread,
                                               int threads) {
#pragma unroll 2
  for (int i = thread; i < kCodeTable; i += threads) to[i] = table[i < 256 ? i : 255];
}

// How far an index lies above the lowest one, as WholeBytes::Raised has it.
template <bool kFirst>
__device__ __forceinline__ int32_t IndexOf(const CodeRanges& of, int32_t sum, const CodeColumn& column) {
  // What is left of two large numbers is exact, and nothing where the operand stands for zeros.
  float x = static_cast<float>(sum) + column.shift;
  if constexpr (kFirst) x = of.first.Whole(x, column.factor, of.first.scaled_start);
  const float factor = kFirst ? of.last.scaled_factor : column.factor;
  return of.bytes.Raised(of.last.Unbounded(x, factor, column.start));
}
// The codes, the first one lowest, of some indices.
template <bool kTable, class... Index>
__device__ __forceinline__ uint32_t CodesOf(const CodeRanges& of, const uint8_t* table, Index... index) {
  if constexpr (kTable) {
    return device::JoinBytes(uint32_t{table[index]}...);
  } else {
    return of.bytes.Join(index...);
  }
}

}  // namespace cudaep::kernels
