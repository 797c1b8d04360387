// Many tokens of 16-bit floats through tensor cores: tokens are the rows of mma's A, rows of weights the columns of B.
// Both lie along k, so both are copied as they are, a ring of stages ahead; packed weights go through registers.
#pragma once

#include "device/async_copy.h"
#include "device/pairs.h"
#include "device/tensor_core.h"
#include "kernels/moe/moe_grid.h"
#include "kernels/moe/moe_weights.cuh"
#include "kernels/pack.h"

namespace cudaep::kernels::moe {

constexpr int kThreads = 256;
constexpr int kWarpsAcross = 4;  // along the columns; two along the rows
constexpr int kColumns = 128;    // of a block
constexpr int kWarpColumns = kColumns / kWarpsAcross;
constexpr int kDepth = 64;  // inner elements of a stage
constexpr int kStages = 3;
constexpr int kPieceElems = 8, kPieces = kDepth / kPieceElems;  // of 16 bytes, of a row of a stage
constexpr int kMmaRows = 16, kMmaColumns = 8, kMmaDepth = 16;
constexpr int kLines = kThreads / kPieces;  // rows that the block copies at once

// Where a piece of a row is in a stage: the eight rows of a matrix that is loaded have it in different banks.
__device__ __forceinline__ int PlaceOf(int row, int piece) {
  return row * kDepth + ((piece ^ (row % kPieces)) * kPieceElems);
}

// 1024 as Half and 128 as BFloat16 hold small integers in their lowest bits.
template <class T>
inline constexpr uint32_t kMagicPair = std::is_same_v<T, Half> ? 0x64006400u : 0x43004300u;
template <class T>
inline constexpr float kMagicOf = std::is_same_v<T, Half> ? 1024.0f : 128.0f;

// Eight packed weights, as they lie in memory and as a piece. Integers below 2^8 are exact in either type, so weights
// are rounded once, when they are scaled.
template <class T, int kBits>
struct Codes : MoeCodes<kBits> {
  __device__ __forceinline__ Pack<uint32_t, 4> Weights(float scale, float zero) const {
    const uint32_t one = device::PairOf<T>(1.0f, 1.0f), by = device::PairOf<T>(scale, scale), none = 0x80008000u;
    const uint32_t offset = device::PairOf<T>(-kMagicOf<T> - zero, -kMagicOf<T> - zero);
    Pack<uint32_t, 4> weights;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t low = this->Code(2 * i), high = this->Code(2 * i + 1);
      uint32_t pair;
      if constexpr (kBits == 8 && std::is_same_v<T, BFloat16>) {
        pair = device::PairOf<T>(static_cast<float>(low) - zero, static_cast<float>(high) - zero);
      } else {
        pair = device::FmaOfPairs<T>(low | high << 16 | kMagicPair<T>, one, offset);
      }
      weights.value[i] = device::FmaOfPairs<T>(pair, by, none);
    }
    return weights;
  }
};

// Rows of weights of a block's columns. Whole pieces are within the rows.
template <class T, int kBits>
class WeightStages {  // packed
 public:
  __device__ __forceinline__ WeightStages(const MoeArguments& p, int64_t expert, int64_t first_column)
      : row_(static_cast<int>(threadIdx.x) / 2), first_piece_(static_cast<int>(threadIdx.x) % 2 * kMine) {
    at_ = MoeRowOf(p, expert, device::Min(first_column + row_, p.columns - 1));
    bytes_ = MoeRowBytes(p, at_);
  }
  __device__ __forceinline__ void Ask(const MoeArguments& p, int64_t k, T* /*stage*/) {
    k_ = k + first_piece_ * kPieceElems;
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const int64_t piece_k = k_ + i * kPieceElems;
      if (piece_k >= p.k) continue;
      codes_[i].Load(bytes_ + piece_k / 8 * kBits);
      scales_[i] = MoeScale<T>(p, at_, MoeBlockOf(p, piece_k));
      zeros_[i] = MoeZero(p, at_, MoeBlockOf(p, piece_k));
    }
  }
  __device__ __forceinline__ void Finish(const MoeArguments& p, T* stage) const {
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      Pack<uint32_t, 4> weights = {};
      if (k_ + i * kPieceElems < p.k) weights = codes_[i].Weights(scales_[i], zeros_[i]);
      *reinterpret_cast<Pack<uint32_t, 4>*>(stage + PlaceOf(row_, first_piece_ + i)) = weights;
    }
  }

 private:
  static_assert(kThreads == 2 * kColumns);
  static constexpr int kMine = kPieces / 2;
  int row_, first_piece_;
  MoeWeightRow at_;
  const uint8_t* bytes_;
  int64_t k_ = 0;
  Codes<T, kBits> codes_[kMine] = {};
  float scales_[kMine], zeros_[kMine];
};

template <class T>
class WeightStages<T, 0> {  // of the type
 public:
  // Columns kLines apart have the same part of a result, so their rows have one distance.
  __device__ __forceinline__ WeightStages(const MoeArguments& p, int64_t expert, int64_t first_column)
      : left_(static_cast<int>(device::Min<int64_t>(p.columns - first_column, kColumns))),
        stride_(p.k * (p.gate == MoeGate::kHalves || p.gate == MoeGate::kSeparate ? kLines / 2 : kLines)) {
    const int line = static_cast<int>(threadIdx.x) / kPieces;
    const int64_t column = line < left_ ? first_column + line : first_column;
    first_ = reinterpret_cast<const T*>(MoeRowBytes(p, MoeRowOf(p, expert, column)));
  }
  __device__ __forceinline__ void Ask(const MoeArguments& p, int64_t k, T* stage) const {
    const int line = static_cast<int>(threadIdx.x) / kPieces, piece = static_cast<int>(threadIdx.x) % kPieces;
    const bool inside = k + piece * kPieceElems < p.k;
    const T* from = first_ + (inside ? k + piece * kPieceElems : 0);
#pragma unroll
    for (int i = 0; i < kColumns / kLines; ++i) {
      const bool exists = inside && line + i * kLines < left_;
      device::CopyAsync<16>(stage + PlaceOf(line + i * kLines, piece), exists ? from : first_, exists ? 16 : 0);
      from += stride_;
    }
  }
  __device__ __forceinline__ void Finish(const MoeArguments& /*p*/, T* /*stage*/) const {}

 private:
  static_assert(kLines % 2 == 0);
  int left_;  // columns of the block
  int64_t stride_;
  const T* first_;
};

template <int kRows>
constexpr size_t StageBytes() {
  return static_cast<size_t>(kRows + kColumns) * kDepth * 2;
}

template <class T, int kBits, int kRows>
__global__ void __launch_bounds__(kThreads, 2)
    MoeTensorKernel(__grid_constant__ const MoeArguments p, const MoeGrid grid) {
  constexpr int kWarpRows = kRows / 2, kRowTiles = kWarpRows / kMmaRows, kColumnTiles = kWarpColumns / kMmaColumns;
  constexpr int kStage = (kRows + kColumns) * kDepth, kInputRows = kRows / kLines;
  T* const shared = device::DynamicShared<T>();
  device::GridDependencyWait();
  const MoeGridPlace place = MoePlaceOf(grid, blockIdx.x);
  const MoeTile tile = p.at.tiles[place.tile];
  if (tile.rows == 0) return;
  const int thread = static_cast<int>(threadIdx.x), line = thread / kPieces, piece = thread % kPieces;
  const int64_t first_column = place.column * kColumns;

  int32_t inputs[kInputRows];  // rows of a; -1: none
#pragma unroll
  for (int i = 0; i < kInputRows; ++i) {
    const int at = line + i * kLines;
    const int32_t entry_place = tile.first + at;
    inputs[i] = at < tile.rows ? static_cast<int32_t>(MoeInputRow(p, entry_place, p.at.order[entry_place])) : -1;
  }
  WeightStages<T, kBits> weights(p, tile.expert, first_column);
  const auto steps = static_cast<int>((p.k + kDepth - 1) / kDepth);
  const auto stage_of = [&](int step) { return shared + step % kStages * kStage; };
  const auto ask = [&](int step) {
    if (step < steps) {
      T* const stage = stage_of(step);
      const int64_t k = static_cast<int64_t>(step) * kDepth;
      const bool inside = k + piece * kPieceElems < p.k;
#pragma unroll
      for (int i = 0; i < kInputRows; ++i) {
        const bool exists = inside && inputs[i] >= 0;
        const T* const from = static_cast<const T*>(p.at.a) + (exists ? inputs[i] * p.k + k + piece * kPieceElems : 0);
        device::CopyAsync<16>(stage + PlaceOf(line + i * kLines, piece), from, exists ? 16 : 0);
      }
      weights.Ask(p, k, stage + kRows * kDepth);
    }
    device::CommitCopies();
  };
  const auto finish = [&](int step) {
    if (step < steps) weights.Finish(p, stage_of(step) + kRows * kDepth);
  };
#pragma unroll
  for (int step = 0; step < kStages - 1; ++step) {
    ask(step);
    finish(step);
  }

  const int warp = thread / 32, lane = thread % 32;
  const int warp_row = warp / kWarpsAcross * kWarpRows, warp_column = warp % kWarpsAcross * kWarpColumns;
  device::FragmentD<float> sums[kRowTiles][kColumnTiles] = {};
  for (int step = 0; step < steps; ++step) {
    device::WaitForCopies<kStages - 2>();
    __syncthreads();
    ask(step + kStages - 1);
    const T* const tile_a = stage_of(step);
    const T* const tile_b = tile_a + kRows * kDepth;
#pragma unroll
    for (int k = 0; k < kPieces; k += kMmaDepth / kPieceElems) {
      device::FragmentA<T> a[kRowTiles];
      device::FragmentB<T> b[kColumnTiles];
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        device::LoadMatrix<4>(a[i].word, tile_a + PlaceOf(warp_row + i * kMmaRows + lane % 16, k + lane / 16));
      }
#pragma unroll
      for (int j = 0; j < kColumnTiles; j += 2) {
        uint32_t word[4];
        const int row = warp_column + j * kMmaColumns + lane / 16 * 8 + lane % 8;
        device::LoadMatrix<4>(word, tile_b + PlaceOf(row, k + lane / 8 % 2));
        b[j] = {{word[0], word[1]}};
        b[j + 1] = {{word[2], word[3]}};
      }
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
        for (int j = 0; j < kColumnTiles; ++j) device::Mma(sums[i][j], a[i], b[j]);
      }
    }
    finish(step + kStages - 1);
  }

#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = warp_row + i * kMmaRows + device::MmaRow(lane, half * 2);
      if (at >= tile.rows) continue;
      const int64_t entry_place = tile.first + at;
      T* const row = static_cast<T*>(p.at.y) + (p.second ? p.at.order[entry_place] : entry_place) * p.n;
#pragma unroll
      for (int j = 0; j < kColumnTiles; ++j) {
        const float* const pair = sums[i][j].value + half * 2;
        MoeFinish<T>(p, tile.expert, first_column + warp_column + j * kMmaColumns + device::MmaColumn(lane, 0), pair[0],
                     pair[1], row);
      }
    }
  }
}

template <class T, int kBits, int kRows>
Status LaunchRows(const MoeArguments& p, int64_t tiles, device::Stream stream) {
  CUDAEP_ASSIGN_OR_RETURN(const MoeGrid grid, MoeGridOf(tiles, p.columns, kColumns));
  device::LaunchConfig config;
  config.grid.x = grid.blocks;
  config.block.x = kThreads;
  config.shared_bytes = kStages * StageBytes<kRows>();
  config.programmatic = true;
  return device::Launch(MoeTensorKernel<T, kBits, kRows>, config, stream, p, grid);
}

template <class T, int kBits>
Status LaunchBits(const MoeArguments& p, int tile_rows, int64_t tiles, device::Stream stream) {
  return tile_rows > 64 ? LaunchRows<T, kBits, 128>(p, tiles, stream) : LaunchRows<T, kBits, 64>(p, tiles, stream);
}

template <class T>
Status LaunchPacked(const MoeArguments& p, int tile_rows, int64_t tiles, device::Stream stream) {
  switch (p.bits) {
    case 2:
      return LaunchBits<T, 2>(p, tile_rows, tiles, stream);
    case 4:
      return LaunchBits<T, 4>(p, tile_rows, tiles, stream);
    case 8:
      return LaunchBits<T, 8>(p, tile_rows, tiles, stream);
    default:
      return NotSupported("weights of ", p.bits, " bits");
  }
}

// One file each, which compile side by side.
Status LaunchDense(const MoeArguments& p, DataType type, int tile_rows, int64_t tiles, device::Stream stream);
Status LaunchPackedHalf(const MoeArguments& p, int tile_rows, int64_t tiles, device::Stream stream);
Status LaunchPackedBFloat16(const MoeArguments& p, int tile_rows, int64_t tiles, device::Stream stream);

}  // namespace cudaep::kernels::moe
