// What the kernels of MatMulNBits share: where words, scales and zero points lie.
#pragma once

#include <bit>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/launch.h"
#include "kernels/quant/matmul_nbits.h"

namespace cudaep::kernels {

struct NBitsArguments {
  MatMulNBitsPointers at;
  int64_t m, n, k;
  int64_t words, column_stride, word_stride;        // in words
  int64_t scale_column_stride, scale_block_stride;  // in scales
  int64_t log_block, blocks;
  int64_t zero_point, zero_column_stride, zero_row_stride;  // in zero points of a float, in bytes of packed ones
};

// 2^23: a float that holds small integers in its lowest bits.
inline constexpr uint32_t kNBitsMagicBits = 0x4b000000u;
inline constexpr float kNBitsMagic = 8388608.0f;

// Nothing to write; a grid without blocks is no launch.
inline bool IsEmpty(const MatMulNBits& problem) { return problem.m == 0 || problem.n == 0; }

inline NBitsArguments NBitsArgumentsOf(const MatMulNBits& problem, const MatMulNBitsPointers& at) {
  const bool bytes = problem.zero_point == NBitsZeroPoint::kPacked;
  return {.at = at,
          .m = problem.m,
          .n = problem.n,
          .k = problem.k,
          .words = problem.words(),
          .column_stride = problem.packed ? 1 : problem.words(),
          .word_stride = problem.packed ? problem.n : 1,
          .scale_column_stride = problem.packed_scales ? 1 : problem.blocks(),
          .scale_block_stride = problem.packed_scales ? problem.n : 1,
          .log_block = std::countr_zero(static_cast<uint64_t>(problem.block)),
          .blocks = problem.blocks(),
          .zero_point = static_cast<int64_t>(problem.zero_point),
          .zero_column_stride = problem.packed_zero_points ? 1
                                : bytes                    ? problem.zero_point_bytes()
                                                           : problem.blocks(),
          .zero_row_stride = problem.packed_zero_points ? problem.n : 1};
}

template <class T>
__device__ __forceinline__ float NBitsScale(const NBitsArguments& p, int64_t column, int64_t block) {
  return Load(static_cast<const T*>(p.at.scales)[column * p.scale_column_stride + block * p.scale_block_stride]);
}

template <class T, int kBits>
__device__ __forceinline__ float NBitsZero(const NBitsArguments& p, int64_t column, int64_t block) {
  if (p.zero_point == static_cast<int64_t>(NBitsZeroPoint::kMiddle)) return static_cast<float>(1 << (kBits - 1));
  if (p.zero_point == static_cast<int64_t>(NBitsZeroPoint::kFloating)) {
    return Load(static_cast<const T*>(p.at.zero_points)[column * p.zero_column_stride + block * p.zero_row_stride]);
  }
  const int64_t bit = block * kBits;
  const auto byte =
      static_cast<const uint8_t*>(p.at.zero_points)[column * p.zero_column_stride + bit / 8 * p.zero_row_stride];
  return static_cast<float>((byte >> (bit % 8)) & ((1 << kBits) - 1));
}

// The launcher for a type and width: `Launcher<T, kBits>::Run`; null where there is none.
template <template <class, int> class Launcher, class Function>
Function NBitsLauncher(DataType type, int bits) {
  return VisitType<kFloatTypesNoDouble>(type, Function{nullptr}, [&]<class T>() -> Function {
    switch (bits) {
      case 2:
        return &Launcher<T, 2>::Run;
      case 4:
        return &Launcher<T, 4>::Run;
      case 8:
        return &Launcher<T, 8>::Run;
      default:
        return nullptr;
    }
  });
}

}  // namespace cudaep::kernels
