// How a block of MatMulNBits on tensor cores divides its work, and what its lanes load.
#pragma once

#include <algorithm>

#include "device/device_info.h"
#include "device/words.h"
#include "kernels/pack.h"
#include "kernels/quant/matmul_nbits.h"
#include "kernels/quant/nbits_pairs.cuh"

namespace cudaep::kernels::nbits {

inline constexpr int kWarp = 32, kWarpColumns = 32;
inline constexpr int kPieceElems = kPackBytes / 2;  // of the left matrix, moved at once
inline constexpr int kMostSplits = 4;

// How a block works on 8 * kGroups rows: kWide warps beside each other, kDeep along the inner dimension; each takes
// kSteps steps of a chunk. A multiprocessor holds kResident of them.
template <int kGroupsOf, int kWideOf, int kDeepOf, int kStepsOf, int kResidentOf>
struct Block {
  static constexpr int kGroups = kGroupsOf, kWide = kWideOf, kDeep = kDeepOf, kSteps = kStepsOf;
  static constexpr int kResident = kResidentOf;
  static constexpr int kRows = 8 * kGroups, kColumns = kWarpColumns * kWide, kThreads = kWarp * kWide * kDeep;
  static constexpr int kChunkSteps = kSteps * kDeep;
  static constexpr int kSumStride = kColumns + 4;  // of rows of sums: rows are in different banks
  template <int kBits>
  static constexpr int kChunkElems = kChunkSteps*(128 / kBits);
  template <int kBits>
  static constexpr size_t kSharedBytes = std::max(size_t{2} * kRows * kChunkElems<kBits> * 2,
                                                  size_t{kDeep} * kRows * kSumStride * sizeof(float));
};

// Of a product, or of a factor of a gated one.
struct Weights {
  const void *b, *scales, *zero_points;
};

struct Arguments {
  const void* a;
  Weights weights[2];  // the second one's of a gated product alone
  const void* bias;
  void* y;
  int32_t m, n, k, steps, own_steps;  // own: of one of `splits` blocks of a cluster, whole chunks
  int32_t splits, log_block;
  int32_t whole_packs;  // rows of A and y are moved in packs
  int32_t activation;   // of the first factor: Activation
};

// Blocks of a cluster among which the inner dimension is cut, where the device has clusters and room for more blocks.
inline int SplitsOf(const device::DeviceInfo& device, int64_t blocks, int64_t steps, int chunk_steps) {
  int splits = 1;
  if (device.major < 9 || device.simulated) return splits;
  while (splits < kMostSplits && blocks * splits * 2 <= device.multiprocessors && steps >= splits * 2 * chunk_steps) {
    splits *= 2;
  }
  return splits;
}

// Few rows of 4 bits have a kernel of their own (few_rows_nbits.cu): arguments but those of splits.
inline constexpr int64_t kNBitsFewRows = 8;
bool TakesFewRows(const MatMulNBits& product, bool gated, const device::DeviceInfo& device);
Status LaunchFewRows(const MatMulNBits& product, bool gated, const Arguments& arguments,
                     const device::DeviceInfo& device, device::Stream stream);

// Where a piece of 16 bytes of a row of a chunk begins: what a quarter of a warp reads at once is in different banks.
template <int kBits, int kChunk>
__device__ __forceinline__ int PlaceOf(int row, int piece) {
  constexpr int kMask = kBits == 8 ? 3 : 1, kShift = kBits == 8 ? 1 : kBits == 4 ? 2 : 0;
  return row * kChunk + (piece ^ (row & kMask) << kShift) * kPieceElems;
}

// The words of a step, with their scales and zero points. Words, not elements: nothing touches what is on its way.
struct Words {
  Pack<uint32_t, 4> weights;
  Pack<uint32_t, 2> scales;
  uint32_t zeros;  // a byte a column, that of the block among them
};

// What this lane multiplies with its words of a step of the chunk.
template <class T, int kBits, class B>
__device__ __forceinline__ NBitsPairs<kBits> LoadActivations(const T* chunk, int row, int step, int t) {
  constexpr int kElems = 32 / kBits, kChunk = B::template kChunkElems<kBits>, kPairs = kNBitsPairs<kBits>;
  const int first = step * 4 * kElems + t * kElems;
  uint32_t words[kElems / 2];
  if constexpr (kElems < kPieceElems) {
    const auto half = LoadPack<2>(reinterpret_cast<const uint32_t*>(
        chunk + PlaceOf<kBits, kChunk>(row, first / kPieceElems) + first % kPieceElems));
    words[0] = half.value[0], words[1] = half.value[1];
  } else {
#pragma unroll
    for (int i = 0; i < kElems / kPieceElems; ++i) {
      const auto piece =
          LoadPack<4>(reinterpret_cast<const uint32_t*>(chunk + PlaceOf<kBits, kChunk>(row, first / kPieceElems + i)));
#pragma unroll
      for (int j = 0; j < 4; ++j) words[4 * i + j] = piece.value[j];
    }
  }
  NBitsPairs<kBits> result;
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const uint32_t low = words[i / 2], high = words[(i + kPairs) / 2];
    result.pair[i] = i % 2 == 0 ? device::JoinHalves<false>(low, high) : device::JoinHalves<true>(low, high);
  }
  return result;
}

}  // namespace cudaep::kernels::nbits
