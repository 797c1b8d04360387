// The same as matmul_nbits_mma.cu for few rows. All of the rows that a block multiplies lie in shared memory from the
// start, so its warps go through the inner dimension, and it through its tiles of columns, without waiting for each
// other; and it has fewer instructions to wait for, which come as slowly as what is in memory.
#include <algorithm>

#include "core/checked_math.h"
#include "device/cluster.h"
#include "device/device_info.h"
#include "device/tensor_core.h"
#include "kernels/common/raw_pack.cuh"
#include "kernels/epilogue/activate.cuh"
#include "kernels/quant/nbits_block.cuh"

namespace cudaep::kernels::nbits {
namespace {

constexpr int kBits = 4, kStepWords = 4, kStepElems = kStepWords * 32 / kBits;
constexpr int kPack = 4;      // columns that a thread finishes
constexpr int kMmaTiles = 2;  // of a warp's columns, 16 each

// kWide warps beside each other, kDeep along the inner dimension; each has kSteps steps on their way. A multiprocessor
// holds kResident blocks.
template <int kWideOf, int kDeepOf, int kStepsOf, int kResidentOf>
struct FewRowsBlock {
  static constexpr int kWide = kWideOf, kDeep = kDeepOf, kSteps = kStepsOf, kResident = kResidentOf;
  static constexpr int kWarps = kWide * kDeep, kThreads = kWarps * kWarp, kChunkSteps = kDeep * kSteps;
};

// Of a row in shared memory: an odd number of half lines, so that what a quarter of a warp reads at once is in
// different banks.
__host__ __device__ constexpr int StrideOf(int own_steps) { return (own_steps | 1) * kStepElems; }

// The elements of a word of the left matrix as NBitsPairs has them.
__device__ __forceinline__ PackWords<16> Paired(const PackWords<16>& word) {
  PackWords<16> pairs;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    pairs.word[2 * i] = device::JoinHalves<false>(word.word[i], word.word[i + 2]);
    pairs.word[2 * i + 1] = device::JoinHalves<true>(word.word[i], word.word[i + 2]);
  }
  return pairs;
}

// Brings `count` elements of each row, paired, and zeros behind them as far as a block has steps.
template <int kThreads, class T>
__device__ __forceinline__ void BringRows(const Arguments& p, const T* from, int count, T* to) {
  constexpr int kTogether = 4;  // rows whose loads are in flight at once
  const int stride = StrideOf(p.own_steps), all = p.own_steps * kStepElems;
  for (int at = static_cast<int>(threadIdx.x) * kPieceElems; at < all; at += kThreads * kPieceElems) {
#pragma unroll 1
    for (int first = 0; first < p.m; first += kTogether) {
      PackWords<16> piece[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const bool exists = p.whole_packs && first + i < p.m && at < count;
        piece[i] = exists ? LoadRaw<kPieceElems>(from + int64_t{first + i} * p.k + at) : PackWords<16>{};
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        if (first + i < p.m) StoreWords<kPieceElems>(to + (first + i) * stride + at, Paired(piece[i]));
      }
    }
  }
  if (p.whole_packs) return;
  __syncthreads();
  for (int at = static_cast<int>(threadIdx.x); at < device::Min(count, all); at += kThreads) {
    const int place = at / kPieceElems * kPieceElems + at % 4 * 2 + at / 4 % 2;
#pragma unroll 1
    for (int row = 0; row < p.m; ++row) to[row * stride + place] = from[int64_t{row} * p.k + at];
  }
}

// kGated: of two warps beside each other one has columns of the first factor, the other the same of the second.
template <class T, bool kZeros, class B, bool kGated>
__global__ void __launch_bounds__(B::kThreads, B::kResident) FewRowsKernel(__grid_constant__ const Arguments p) {
  static_assert(B::kWide == (kGated ? 2 : 1));
  T* const rows = device::DynamicShared<T>();
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, g = lane / 4, t = lane % 4;
  const int warp = thread / kWarp, deep = warp / B::kWide;
  const Weights& factor = p.weights[warp % B::kWide];
  const int split = static_cast<int>(blockIdx.x) % p.splits, blocks = static_cast<int>(gridDim.x) / p.splits;
  const int begin = device::Min(split * p.own_steps, p.steps), end = device::Min(begin + p.own_steps, p.steps);
  const int stride = StrideOf(p.own_steps), tiles = (p.n + kWarpColumns - 1) / kWarpColumns;
  auto* const begin_of_parts = reinterpret_cast<float*>(rows + p.m * stride);
  float* parts = begin_of_parts;
  using Sum = Pack<float, kPack>;
  constexpr int kRowPacks = kWarpColumns / kPack;
  const int part = p.m * kWarpColumns, packs = p.m * kRowPacks;

  int tile = static_cast<int>(blockIdx.x) / p.splits;
  Words ring[B::kSteps];
  const auto ask = [&](Words& to, int of_tile, int step) {
    if (step >= end || of_tile >= tiles) return;
    const int column = device::Min(of_tile * kWarpColumns + 4 * g, p.n - 4), block = step * kStepElems >> p.log_block;
    const auto row = [&](int index) { return static_cast<uint32_t>(index * p.n + column); };
    to.weights = LoadPack<4>(static_cast<const uint32_t*>(factor.b) + row(step * kStepWords + t));
    to.scales =
        LoadPack<kMmaTiles>(reinterpret_cast<const uint32_t*>(static_cast<const T*>(factor.scales) + row(block)));
    if constexpr (kZeros) {
      const auto* const zeros = static_cast<const uint8_t*>(factor.zero_points) + row(block / 2);
      to.zeros = *reinterpret_cast<const uint32_t*>(zeros);
    }
  };
#pragma unroll
  for (int i = 0; i < B::kSteps; ++i) ask(ring[i], tile, begin + deep * B::kSteps + i);
  device::GridDependencyWait();
  device::TriggerDependents();  // not before: of all that follow the next kernel alone is to take room here
  const int first_k = begin * kStepElems;
  BringRows<B::kThreads>(p, static_cast<const T*>(p.a) + first_k, p.k - first_k, rows);
  __syncthreads();

#pragma unroll 1
  for (; tile < tiles; tile += blocks) {
    device::FragmentD<float> sums[kMmaTiles] = {};
#pragma unroll 1
    for (int first = begin + deep * B::kSteps; first < end; first += B::kChunkSteps) {
#pragma unroll
      for (int i = 0; i < B::kSteps; ++i) {
        const int step = first + i;
        if (step >= end) break;
        const auto x = LoadRaw<kPieceElems>(rows + device::Min(g, p.m - 1) * stride + (step - begin) * kStepElems +
                                            t * kPieceElems);
#pragma unroll
        for (int j = 0; j < kMmaTiles; ++j) {
          NBitsPairs<kBits> pairs[2];
#pragma unroll
          for (int c = 0; c < 2; ++c) {
            uint32_t zero = kMiddlePair<kBits>;
            if constexpr (kZeros) {
              zero = ZeroPair<kBits>(ring[i].zeros, 2 * j + c, (step * kStepElems >> p.log_block) * kBits % 8);
            }
            pairs[c] = WeightPairs<T, kBits>(ring[i].weights.value[2 * j + c], zero);
          }
          device::FragmentD<float> dot = {};
#pragma unroll
          for (int k = 0; k < kNBitsPairs<kBits>; k += 2) {
            device::Mma(
                dot,
                device::FragmentA<T>{{pairs[0].pair[k], pairs[1].pair[k], pairs[0].pair[k + 1], pairs[1].pair[k + 1]}},
                device::FragmentB<T>{{x.word[k], x.word[k + 1]}});
          }
#pragma unroll
          for (int v = 0; v < 4; ++v) {
            const uint32_t scale = ring[i].scales.value[j] >> (v / 2 * 16);
            sums[j].value[v] += ToFloat(T{static_cast<uint16_t>(scale)}) * dot.value[v];
          }
        }
        const bool again = step + B::kChunkSteps < end;
        ask(ring[i], again ? tile : tile + blocks, again ? step + B::kChunkSteps : begin + deep * B::kSteps + i);
      }
    }
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const int row = device::MmaColumn(lane, v);
      if (row >= p.m) continue;
      const auto &left = sums[0].value, &right = sums[1].value;
      StorePack(parts + warp * part + row * kWarpColumns + 4 * g,
                Pack<float, 4>{left[v], left[v + 2], right[v], right[v + 2]});
    }
    __syncthreads();
    const auto place_of = [&](int i) { return parts + i / kRowPacks * kWarpColumns + i % kRowPacks * kPack; };
    const auto add = [](Sum& sum, const Sum& term) {
#pragma unroll
      for (int j = 0; j < kPack; ++j) sum.value[j] += term.value[j];
    };
    const auto finish = [&](int i, const Sum(&sum)[B::kWide]) {
      const int column = tile * kWarpColumns + i % kRowPacks * kPack;
      if (column >= p.n) return;
      T* const y = static_cast<T*>(p.y) + int64_t{i / kRowPacks} * p.n + column;
      Pack<T, kPack> result;
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        float value = sum[0].value[j];
        if constexpr (kGated) {
          value = ActivateApproximately(static_cast<Activation>(p.activation), {}, value) * sum[1].value[j];
        } else if (p.bias != nullptr) {
          value += ToFloat(static_cast<const T*>(p.bias)[column + j]);
        }
        result.value[j] = Store<T>(value);
      }
      if (p.whole_packs) return StorePack(y, result);
      for (int j = 0; j < kPack; ++j) y[j] = result.value[j];
    };
    for (int i = thread; i < packs; i += B::kThreads) {
      Sum sum[B::kWide] = {};
#pragma unroll
      for (int w = 0; w < B::kWarps; ++w) add(sum[w % B::kWide], LoadPack<kPack>(place_of(i) + w * part));
      if (p.splits == 1) {
        finish(i, sum);
        continue;
      }
#pragma unroll
      for (int f = 0; f < B::kWide; ++f) StorePack(place_of(i) + f * part, sum[f]);
    }
    if (p.splits > 1) {
      device::ClusterBarrier();
      for (int i = split + thread * p.splits; i < packs; i += B::kThreads * p.splits) {
        Sum sum[B::kWide] = {};
#pragma unroll
        for (int f = 0; f < B::kWide; ++f) {
          for (int s = 0; s < p.splits; ++s) {
            add(sum[f], device::LoadFromCluster<Sum>(place_of(i) + f * part, static_cast<unsigned>(s)));
          }
        }
        finish(i, sum);
      }
      device::ClusterBarrier();  // the others have read this block's sums
    }
    // The next sums are elsewhere: before these are written over, all have met at a barrier.
    parts = parts == begin_of_parts ? parts + B::kWarps * part : begin_of_parts;
  }
}

using Columns = FewRowsBlock<1, 8, 8, 2>;
using FewColumns = FewRowsBlock<1, 16, 4, 1>;  // where each block has a tile, and all of it is on its way
using Gate = FewRowsBlock<2, 8, 4, 2>;

struct Grid {
  int64_t tiles = 0, own_steps = 0, blocks = 0;  // blocks: each with one tile after the other
  int splits = 1;
  bool few_columns = false;
  size_t shared_bytes = 0;  // of a block
  bool fits = false;        // as many blocks as there would be without rows in shared memory
};

Grid GridOf(const MatMulNBits& product, bool gated, const device::DeviceInfo& device) {
  const int64_t steps = product.words() / kStepWords, processors = std::max(device.multiprocessors, 1);
  Grid grid{.tiles = CeilDiv<int64_t>(product.n, kWarpColumns)};
  grid.splits = SplitsOf(device, grid.tiles, steps, gated ? Gate::kChunkSteps : Columns::kChunkSteps);
  grid.own_steps = CeilDiv<int64_t>(steps, grid.splits);
  grid.few_columns = !gated && grid.tiles <= processors && grid.own_steps <= FewColumns::kChunkSteps;
  const auto of_block = [&]<class B>(B) {
    const auto rows = static_cast<size_t>(product.m), warps = size_t{B::kWarps};
    grid.shared_bytes = rows * static_cast<size_t>(StrideOf(static_cast<int>(grid.own_steps))) * 2 +
                        2 * warps * rows * kWarpColumns * sizeof(float);
    grid.blocks = std::min<int64_t>(grid.tiles * grid.splits, B::kResident * processors);
  };
  if (gated) {
    of_block(Gate());
  } else if (grid.few_columns) {
    of_block(FewColumns());
  } else {
    of_block(Columns());
  }
  const auto together = static_cast<size_t>(CeilDiv(grid.blocks, processors));
  grid.fits = together * grid.shared_bytes <= device.shared_bytes_per_block;
  return grid;
}

struct Launching {
  const Grid& grid;
  bool zeros;
  Arguments p;
  device::Stream stream;
};

template <class T, class B, bool kGated>
Status LaunchBlocks(const Launching& l) {
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(l.grid.blocks);
  config.cluster.x = static_cast<unsigned>(l.grid.splits);
  config.block.x = B::kThreads;
  config.shared_bytes = l.grid.shared_bytes;
  config.programmatic = true;
  return l.zeros ? device::Launch(FewRowsKernel<T, true, B, kGated>, config, l.stream, l.p)
                 : device::Launch(FewRowsKernel<T, false, B, kGated>, config, l.stream, l.p);
}

template <class T>
Status LaunchType(bool gated, const Launching& l) {
  if (gated) return LaunchBlocks<T, Gate, true>(l);
  return l.grid.few_columns ? LaunchBlocks<T, FewColumns, false>(l) : LaunchBlocks<T, Columns, false>(l);
}

}  // namespace

bool TakesFewRows(const MatMulNBits& product, bool gated, const device::DeviceInfo& device) {
  return product.bits == kBits && product.m <= kNBitsFewRows && GridOf(product, gated, device).fits;
}

Status LaunchFewRows(const MatMulNBits& product, bool gated, const Arguments& arguments,
                     const device::DeviceInfo& device, device::Stream stream) {
  const Grid grid = GridOf(product, gated, device);
  Launching l{.grid = grid, .zeros = product.zero_point == NBitsZeroPoint::kPacked, .p = arguments, .stream = stream};
  l.p.splits = grid.splits;
  l.p.own_steps = static_cast<int32_t>(grid.own_steps);
  return product.type == DataType::kFloat16 ? LaunchType<Half>(gated, l) : LaunchType<BFloat16>(gated, l);
}

}  // namespace cudaep::kernels::nbits
