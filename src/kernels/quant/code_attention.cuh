// What kernels of attention of codes share: codes on their way to shared memory, and the mask's numbers.
#pragma once

#include "device/intrinsics.h"
#include "device/launch.h"
#include "kernels/pack.h"
#include "kernels/quant/code_attention.h"
#include "kernels/quant/code_pairs.cuh"

namespace cudaep::kernels {

inline constexpr int kPackCodes = kCodeAttentionPack, kRowPacks = kCodeAttentionHead / kPackCodes;

// A thread's part of rows of codes, of a block of kThreads.
template <int kTileRows, int kThreads, bool kAligned>
struct CodeRows {
  static constexpr int kPacks = kTileRows * kRowPacks / kThreads;
  static_assert(kPacks * kThreads == kTileRows * kRowPacks);
  uint32_t word[kPacks][4];

  static __device__ __forceinline__ int RowOf(int pack) {
    return static_cast<int>(threadIdx.x / kRowPacks) + pack * (kThreads / kRowPacks);
  }
  static __device__ __forceinline__ int PackOf() { return static_cast<int>(threadIdx.x % kRowPacks); }

  // Rows from `there` on, at least 1, are the last one again, columns from `columns` on codes that stand for 0.
  __device__ __forceinline__ void Load(const int8_t* from, int64_t step, int there, int columns, int32_t zero) {
    if (PackOf() * kPackCodes >= columns) {
      const uint32_t zeros = static_cast<uint32_t>(zero & 0xff) * 0x01010101u;
      for (auto& words : word) {
        for (uint32_t& of_four : words) of_four = zeros;
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int8_t* const row =
          from + int64_t{static_cast<uint32_t>(device::Min(RowOf(i), there - 1))} * step + PackOf() * kPackCodes;
      if constexpr (kAligned) {
        const Pack<uint32_t, 4> pack =
            LoadPack<4>(reinterpret_cast<const uint32_t*>(__builtin_assume_aligned(row, 16)));
#pragma unroll
        for (int w = 0; w < 4; ++w) word[i][w] = pack.value[w];
      } else {
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          word[i][w] = 0;
          for (int b = 0; b < 4; ++b)
            word[i][w] |= static_cast<uint32_t>(static_cast<uint8_t>(row[4 * w + b])) << (8 * b);
        }
      }
    }
  }

  // As 16-bit floats, eight of them at place(row, piece of the row).
  template <class Place>
  __device__ __forceinline__ void Store(int32_t zero, Place&& place) const {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t low = word[i][2 * half], high = word[i][2 * half + 1];
        StorePack(
            reinterpret_cast<uint32_t*>(__builtin_assume_aligned(place(RowOf(i), PackOf() * 2 + half), kPackBytes)),
            Pack<uint32_t, 4>{{PairOfCodes(low, 0, zero), PairOfCodes(low, 2, zero), PairOfCodes(high, 0, zero),
                               PairOfCodes(high, 2, zero)}});
      }
    }
  }
};

// Of an element of the mask, without its factor.
__device__ __forceinline__ float MaskNumber(const CodeAttention& p, const void* mask, int64_t at) {
  if (p.mask == DataType::kFloat) return static_cast<const float*>(mask)[at];
  const int32_t code = p.mask == DataType::kInt8 ? int32_t{static_cast<const int8_t*>(mask)[at]}
                                                 : int32_t{static_cast<const uint8_t*>(mask)[at]};
  return static_cast<float>(code - p.mask_zero);
}

}  // namespace cudaep::kernels
