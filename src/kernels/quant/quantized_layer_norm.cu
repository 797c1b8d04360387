#include <algorithm>

#include "core/checked_math.h"
#include "device/launch.h"
#include "device/rounded.h"
#include "kernels/common/trigger.cuh"
#include "kernels/pack.h"
#include "kernels/quant/quantized_layer_norm.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int64_t kMostBlocks = 1 << 20;

struct RowPointers {
  const uint8_t* x;
  const uint8_t* residual;
  uint8_t* y;
};

template <NormSum kOf>
constexpr bool kHasResidual = kOf != NormSum::kNone;

// Added to a number it leaves the nearest whole one in the sum's last bits, ties to even.
constexpr float kWholeNumbers = 0x1.8p23f;
// The numbers from 2^23 on have whole ones for their last bits, so that a byte needs no conversion to become a float,
// of which a multiprocessor makes few at a time.
constexpr float kFloatOfBytes = 0x1p23f;
constexpr uint32_t kBitsOfBytes = 0x4b000000;

// code - zero, of a byte of a word that was flipped.
__device__ __forceinline__ float AboveZero(const NormCoding& coding, uint32_t word, int index) {
  const float middle = kFloatOfBytes + static_cast<float>(coding.above_lowest);
#if defined(__CUDA_ARCH__)
  const uint32_t bits = __byte_perm(word, kBitsOfBytes, 0x7650u | static_cast<unsigned>(index));
#else
  const uint32_t bits = (word >> (8 * index) & 0xffu) | kBitsOfBytes;
#endif
  return std::bit_cast<float>(bits) - middle;
}

// code - zero of a number, plus kWholeNumbers.
template <bool kDivides>
__device__ __forceinline__ float RaisedCode(const NormRounding& to, float number) {
  if constexpr (kDivides) {
    const float least = -static_cast<float>(to.coding.above_lowest);
    return fminf(fmaxf(number / to.coding.scale, least), least + 255.0f) + kWholeNumbers;
  } else {
    return to.reciprocal.Quotient(fminf(fmaxf(number, to.least), to.most)) + kWholeNumbers;
  }
}

// How far the code of a number lies above the lowest, in the lowest byte, with other bits behind it.
template <bool kDivides>
__device__ __forceinline__ uint32_t ByteOf(const NormRounding& to, float number) {
  return std::bit_cast<uint32_t>(RaisedCode<kDivides>(to, number)) + static_cast<uint32_t>(to.coding.above_lowest);
}

__device__ __forceinline__ uint32_t JoinBytes(const uint32_t* byte) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(__byte_perm(byte[0], byte[1], 0x0040), __byte_perm(byte[2], byte[3], 0x0040), 0x5410);
#else
  return (byte[0] & 0xff) | (byte[1] & 0xff) << 8 | (byte[2] & 0xff) << 16 | byte[3] << 24;
#endif
}

// What an element is to the moments: code - zero, of x or of the coded sum, or the number that the sum is.
template <NormSum kOf, bool kDivides>
__device__ __forceinline__ float ValueOf(const QuantizedLayerNorm& p, uint32_t x, uint32_t residual, int index) {
  const float value = AboveZero(p.x, x, index);
  if constexpr (kOf == NormSum::kNone) {
    return value;
  } else {
    const float number = device::RoundedProduct(value, p.x.scale) +
                         device::RoundedProduct(AboveZero(p.residual, residual, index), p.residual.scale);
    if constexpr (kOf == NormSum::kNumbers) return number;
    return RaisedCode<kDivides>(p.sum, number) - kWholeNumbers;
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

// A warp a row of whole packs, which it keeps.
template <int kPack, int kPacks, NormSum kOf>
__global__ void __launch_bounds__(kThreads)
    QuantizedNormRowsKernel(__grid_constant__ const QuantizedLayerNorm p, const RowPointers at, const float* gamma,
                            const float* beta) {
  constexpr int kWords = kPack / 4;
  using Words = Pack<uint32_t, kWords>;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int left = static_cast<int>(p.elems) / kPack - lane;  // packs from the lane's first on
  const auto has = [&](int j) { return j * 32 < left; };
  const float unit = UnitOf<kOf>(p);
  TriggerDependentsOfSmallGrid();
  device::GridDependencyWait();
  for (int64_t row = blockIdx.x * int64_t{kWarps} + warp; row < p.rows; row += gridDim.x * int64_t{kWarps}) {
    const int64_t start = row * p.elems + lane * kPack;
    Words x[kPacks] = {};
    [[maybe_unused]] Words residual[kHasResidual<kOf> ? kPacks : 1] = {};
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (has(j)) x[j] = LoadPack<kWords>(reinterpret_cast<const uint32_t*>(at.x + start + j * 32 * kPack));
    }
    if constexpr (kHasResidual<kOf>) {
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        if (!has(j)) continue;
        residual[j] = LoadPack<kWords>(reinterpret_cast<const uint32_t*>(at.residual + start + j * 32 * kPack));
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
        x[j].value[w] = JoinBytes(byte) ^ p.y.coding.flip * 0x01010101u;
      }
    }
    // All at the end: a store holds back the loads behind it, which might be of the same memory.
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (has(j)) StorePack(reinterpret_cast<uint32_t*>(at.y + start + j * 32 * kPack), x[j]);
    }
  }
}

// A block a row, for all others.
template <NormSum kOf>
__global__ void __launch_bounds__(kThreads)
    QuantizedNormKernel(__grid_constant__ const QuantizedLayerNorm p, const RowPointers at, const float* gamma,
                        const float* beta) {
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
  void (*kernel)(QuantizedLayerNorm, RowPointers, const float*, const float*) = nullptr;
  int pack = 0, packs = 0;  // of a lane

  int codes() const { return pack * packs; }
};

template <NormSum kOf, int kPack, int kPacks>
constexpr Variant kRows = {&QuantizedNormRowsKernel<kPack, kPacks, kOf>, kPack, kPacks};

// With as many codes of a lane as others, the wider packs come first.
template <NormSum kOf>
constexpr Variant kVariants[] = {kRows<kOf, 16, 1>, kRows<kOf, 16, 2>, kRows<kOf, 16, 3>, kRows<kOf, 16, 4>,
                                 kRows<kOf, 8, 1>,  kRows<kOf, 8, 3>,  kRows<kOf, 8, 5>,  kRows<kOf, 8, 8>,
                                 kRows<kOf, 4, 1>,  kRows<kOf, 4, 3>,  kRows<kOf, 4, 8>,  kRows<kOf, 4, 16>};

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
  return device::Launch(best == nullptr ? &QuantizedNormKernel<kOf> : best->kernel, config, stream, norm, rows,
                        args.gamma, args.beta);
}

}  // namespace

NormRounding NormRounding::Of(const NormCoding& coding) {
  NormRounding to{.coding = coding};
  const auto reciprocal = CodeReciprocalOf(coding.scale);
  to.has_reciprocal = reciprocal.has_value();
  if (reciprocal) to.reciprocal = *reciprocal;
  to.least = -static_cast<float>(coding.above_lowest) * coding.scale;
  to.most = static_cast<float>(255 - coding.above_lowest) * coding.scale;
  return to;
}

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
