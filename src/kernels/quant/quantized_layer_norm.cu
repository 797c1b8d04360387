#include <algorithm>

#include "core/checked_math.h"
#include "device/launch.h"
#include "device/words.h"
#include "kernels/common/trigger.cuh"
#include "kernels/pack.h"
#include "kernels/quant/code_rounding.cuh"
#include "kernels/quant/quantized_layer_norm.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
// Of a multiprocessor, with the registers that so many values take.
constexpr unsigned ThreadsAtOnce(int values) { return values <= 24 ? 1024 : values <= 32 ? 768 : 512; }
constexpr int64_t kMostBlocks = 1 << 20;

struct RowPointers {
  const uint8_t* x;
  const uint8_t* residual;
  uint8_t* y;
};

template <NormSum kOf>
constexpr bool kHasResidual = kOf != NormSum::kNone;

// What an element is to the moments: code - zero, of x or of the coded sum, or the number that the sum is.
template <NormSum kOf, bool kDivides>
__device__ __forceinline__ float ValueOf(const QuantizedLayerNorm& p, uint32_t x, uint32_t residual, int index) {
  if constexpr (kOf == NormSum::kNone) {
    return AboveZero(p.x, x, index);
  } else {
    const float number = NumberOf(p.x, x, index) + NumberOf(p.residual, residual, index);
    if constexpr (kOf == NormSum::kNumbers) return number;
    return WholeCode(UnroundedCode<kDivides>(p.sum, number));
  }
}

// The number that one of such a value stands for.
template <NormSum kOf>
__device__ __forceinline__ float UnitOf(const QuantizedLayerNorm& p) {
  if constexpr (kOf == NormSum::kNumbers) return 1.0f;
  return kOf == NormSum::kCodes ? p.sum.coding.scale : p.x.scale;
}

// By which deviations are multiplied.
__device__ __forceinline__ float FactorOf(const QuantizedLayerNorm& p, float squares, float unit) {
  const float variance = squares / static_cast<float>(p.elems) * unit * unit;
  return unit / std::sqrt(variance + p.epsilon);
}

__device__ __forceinline__ float SumOfWarp(float value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(device::kFullWarp, value, offset);
  return value;
}

// A warp a row of whole packs, which it keeps. `rehearses`: once of the scale as if that were a row, before earlier
// work is done, as a kernel of a few us waits for its instructions as long as for memory.
template <int kPack, int kPacks, NormSum kOf>
__global__ void __launch_bounds__(kThreads)
    QuantizedNormRowsKernel(__grid_constant__ const QuantizedLayerNorm p, const RowPointers at, const float* gamma,
                            const float* beta, bool rehearses) {
  constexpr int kWords = kPack / 4;
  using Words = Pack<uint32_t, kWords>;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int left = static_cast<int>(p.elems) / kPack - lane;  // packs from the lane's first on
  const auto has = [&](int j) { return j * 32 < left; };
  const float unit = UnitOf<kOf>(p);
  TriggerDependentsOfOneRound(ThreadsAtOnce(kPack * kPacks));
  if (!rehearses) device::GridDependencyWait();
  bool is_real = !rehearses;
#pragma unroll 1
  for (int64_t row = blockIdx.x * int64_t{kWarps} + warp; row < p.rows;) {
    const int64_t start = (is_real ? row * p.elems : 0) + lane * kPack;
    const auto* const of_constants = reinterpret_cast<const uint8_t*>(gamma);
    const uint8_t *const from = is_real ? at.x : of_constants, *const more_from = is_real ? at.residual : of_constants;
    Words x[kPacks] = {};
    [[maybe_unused]] Words residual[kHasResidual<kOf> ? kPacks : 1] = {};
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (has(j)) x[j] = LoadPack<kWords>(reinterpret_cast<const uint32_t*>(from + start + j * 32 * kPack));
    }
    if constexpr (kHasResidual<kOf>) {
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        if (!has(j)) continue;
        residual[j] = LoadPack<kWords>(reinterpret_cast<const uint32_t*>(more_from + start + j * 32 * kPack));
      }
    }
    float value[kPacks][kPack];
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        const uint32_t codes = x[j].value[w] ^ p.x.flip * 0x01010101u;
        uint32_t more = 0;
        if constexpr (kHasResidual<kOf>) more = residual[j].value[w] ^ p.residual.flip * 0x01010101u;
#pragma unroll
        for (int k = 0; k < 4; ++k) value[j][w * 4 + k] = ValueOf<kOf, false>(p, codes, more, k);
      }
    }
    // Sums of codes are exact. Those of numbers are of distances, so that rows of one number have no deviation.
    if constexpr (kOf == NormSum::kNumbers) {
      const float base = __shfl_sync(device::kFullWarp, value[0][0], 0);
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
#pragma unroll
        for (int k = 0; k < kPack; ++k) value[j][k] -= base;
      }
    }
    float sum[4] = {}, squares[4] = {};
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (!has(j)) continue;
#pragma unroll
      for (int k = 0; k < kPack; ++k) sum[k % 4] += value[j][k];
    }
    const float mean = SumOfWarp((sum[0] + sum[1]) + (sum[2] + sum[3])) / static_cast<float>(p.elems);
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (!has(j)) continue;
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        value[j][k] -= mean;
        squares[k % 4] = fmaf(value[j][k], value[j][k], squares[k % 4]);
      }
    }
    const float factor = FactorOf(p, SumOfWarp((squares[0] + squares[1]) + (squares[2] + squares[3])), unit);
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (!has(j)) continue;
      const int column = (lane + j * 32) * kPack;
      const auto scale = LoadPack<kPack>(gamma + column);
      Pack<float, kPack> shift = {};
      if (beta != nullptr) shift = LoadPack<kPack>(beta + column);
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        uint32_t byte[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const int i = w * 4 + k;
          byte[k] = ByteOf<false>(p.y, fmaf(value[j][i] * factor, scale.value[i], shift.value[i]));
        }
        x[j].value[w] = device::JoinBytes(byte[0], byte[1], byte[2], byte[3]) ^ p.y.coding.flip * 0x01010101u;
      }
    }
    // All at the end: a store holds back the loads behind it, which might be of the same memory.
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (is_real && has(j)) StorePack(reinterpret_cast<uint32_t*>(at.y + start + j * 32 * kPack), x[j]);
    }
    if (is_real) {
      row += gridDim.x * int64_t{kWarps};
    } else {
      device::GridDependencyWait();
      is_real = true;
    }
  }
}

// A block a row, for all others.
template <NormSum kOf>
__global__ void __launch_bounds__(kThreads)
    QuantizedNormKernel(__grid_constant__ const QuantizedLayerNorm p, const RowPointers at, const float* gamma,
                        const float* beta, bool /*rehearses*/) {
  __shared__ float sum_of[kWarps], squares_of[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const float unit = UnitOf<kOf>(p);
  TriggerDependentsOfSmallGrid();
  device::GridDependencyWait();
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const int64_t start = row * p.elems;
    const auto value_at = [&](int64_t i) {
      uint32_t more = 0;
      if constexpr (kHasResidual<kOf>) more = at.residual[start + i] ^ p.residual.flip;
      return ValueOf<kOf, true>(p, at.x[start + i] ^ p.x.flip, more, 0);
    };
    // Rows of one value have no deviation.
    const float base = value_at(0);
    float mean = 0, squares = 0;
    for (int64_t i = threadIdx.x; i < p.elems; i += kThreads) mean += value_at(i) - base;
    mean = SumOfWarp(mean);
    if (lane == 0) sum_of[warp] = mean;
    __syncthreads();
    mean = 0;
    for (int i = 0; i < kWarps; ++i) mean += sum_of[i];
    mean /= static_cast<float>(p.elems);
    for (int64_t i = threadIdx.x; i < p.elems; i += kThreads) {
      const float deviation = value_at(i) - base - mean;
      squares = fmaf(deviation, deviation, squares);
    }
    squares = SumOfWarp(squares);
    if (lane == 0) squares_of[warp] = squares;
    __syncthreads();
    squares = 0;
    for (int i = 0; i < kWarps; ++i) squares += squares_of[i];
    const float factor = FactorOf(p, squares, unit);
    for (int64_t i = threadIdx.x; i < p.elems; i += kThreads) {
      const float shift = beta == nullptr ? 0.0f : beta[i];
      const float number = fmaf((value_at(i) - base - mean) * factor, gamma[i], shift);
      at.y[start + i] = static_cast<uint8_t>(ByteOf<true>(p.y, number) ^ p.y.coding.flip);
    }
  }
}

struct Variant {
  void (*kernel)(QuantizedLayerNorm, RowPointers, const float*, const float*, bool) = nullptr;
  int pack = 0, packs = 0;  // of a lane

  int codes() const { return pack * packs; }
};

template <NormSum kOf, int kPack, int kPacks>
constexpr Variant kRows = {&QuantizedNormRowsKernel<kPack, kPacks, kOf>, kPack, kPacks};

// With as many codes of a lane as others, the wider packs come first.
template <NormSum kOf>
constexpr Variant kVariants[] = {kRows<kOf, 16, 1>, kRows<kOf, 16, 2>, kRows<kOf, 16, 4>, kRows<kOf, 8, 1>,
                                 kRows<kOf, 8, 3>,  kRows<kOf, 4, 1>,  kRows<kOf, 4, 3>,  kRows<kOf, 4, 16>};

template <NormSum kOf>
Status LaunchAs(const QuantizedLayerNorm& norm, const QuantizedLayerNormArgs& args, device::Stream stream) {
  const auto takes = [&](const Variant& v) {
    const auto bytes = static_cast<size_t>(v.pack);
    return norm.elems % v.pack == 0 && norm.elems <= v.codes() * 32 && IsAligned(args.x, bytes) &&
           IsAligned(args.residual, bytes) && IsAligned(args.y, bytes);
  };
  const bool has_reciprocals = norm.y.has_reciprocal && (kOf != NormSum::kCodes || norm.sum.has_reciprocal);
  const Variant* best = nullptr;  // that leaves the fewest lanes idle
  if (has_reciprocals && IsAligned(args.gamma, kPackBytes) && IsAligned(args.beta, kPackBytes)) {
    for (const Variant& v : kVariants<kOf>) {
      if (takes(v) && (best == nullptr || v.codes() < best->codes())) best = &v;
    }
  }
  device::LaunchConfig config;
  config.grid.x =
      static_cast<unsigned>(std::min(best == nullptr ? norm.rows : CeilDiv(norm.rows, int64_t{kWarps}), kMostBlocks));
  config.block.x = kThreads;
  config.programmatic = true;
  const RowPointers rows{static_cast<const uint8_t*>(args.x), static_cast<const uint8_t*>(args.residual),
                         static_cast<uint8_t*>(args.y)};
  const bool rehearses = args.constant_affine && config.grid.x <= kMultiprocessors;
  return device::Launch(best == nullptr ? &QuantizedNormKernel<kOf> : best->kernel, config, stream, norm, rows,
                        args.gamma, args.beta, rehearses);
}

}  // namespace

Status LaunchQuantizedLayerNorm(const QuantizedLayerNorm& norm, const QuantizedLayerNormArgs& args,
                                device::Stream stream) {
  if (norm.rows * norm.elems == 0) return Status::Ok();
  switch (norm.of) {
    case NormSum::kNumbers:
      return LaunchAs<NormSum::kNumbers>(norm, args, stream);
    case NormSum::kCodes:
      return LaunchAs<NormSum::kCodes>(norm, args, stream);
    default:
      return LaunchAs<NormSum::kNone>(norm, args, stream);
  }
}

}  // namespace cudaep::kernels
