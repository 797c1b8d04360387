// The arithmetic that both softmax kernels share.
#pragma once

#include "kernels/common/raw_pack.cuh"
#include "kernels/common/row_reduce.cuh"

namespace cudaep::kernels {

// exp(x - y), x - y being what rounding makes of it in the units of the exponent. Results below the smallest normal
// number become zero, which saves the four instructions that FastExp spends on them.
__device__ __forceinline__ float SoftmaxExp(float x, float y = 0.0f) {
  constexpr float kLog2E = 1.4426950408889634f;
  return device::FastExp2(x * kLog2E - y * kLog2E);
}
__device__ __forceinline__ double SoftmaxExp(double x, double y = 0.0) { return exp(x - y); }

// exp(x - base) for x <= base, as good as results of type T want it.
template <class T>
struct ExpBelow {
  using C = ComputeType<T>;
  C base;
  __device__ __forceinline__ C operator()(C x) const { return SoftmaxExp(x - base); }
};

// To 3 units in the last place for every size of x and base, though their difference be no float: the integer parts of
// x log2(e) and base log2(e) meet as integers and the fractions as fractions. Results below the smallest normal number
// become zero.
template <>
struct ExpBelow<float> {
  static constexpr float kLog2E = 1.4426950408889634f, kLog2ERest = 1.9259629911266175e-8f;
  static constexpr float kRounding = 12582912.0f;  // 1.5 * 2^23: what is added to it is rounded to an integer
  static constexpr float kLargeBase = 1048576.0f;  // from here on differences that matter are floats
  static constexpr float kZeroExponent = -160.0f;  // of a power that is zero
  float shift, integer, fraction;

  explicit __device__ __forceinline__ ExpBelow(float base)
      : shift(std::fabs(base) < kLargeBase ? 0.0f : base), integer(RoundedLog(base - shift)) {
    fraction = fmaf(base - shift, kLog2ERest, fmaf(base - shift, kLog2E, -integer));
  }
  __device__ __forceinline__ float operator()(float x) const {
    const float shifted = x - shift;
    const float exponent = fmaxf(RoundedLog(shifted), integer + kZeroExponent);
    const float rest = fmaf(shifted, kLog2E, -exponent) + fmaf(shifted, kLog2ERest, -fraction);
    return device::FastExp2(rest) * device::FastExp2(exponent - integer);
  }

 private:
  static __device__ __forceinline__ float RoundedLog(float x) { return fmaf(x, kLog2E, kRounding) - kRounding; }
};

// Of one x.
template <class C>
__device__ __forceinline__ C PreciseExp(C x, C base) {
  return ExpBelow<C>{base}(x);
}

// exp(x - shift) for many x with one instruction each beside the exponential, by rounding the shift in the units of the
// exponent. Where the shift is small that costs less than the rounding of a 16-bit result (2^-14.5 for 1024).
template <class C>
struct FoldedExp {
  C scaled;

  // Whether results of type T are as good as those of SoftmaxExp.
  template <class T>
  static __device__ __forceinline__ bool Serves(C shift) {
    return sizeof(T) == 2 && std::fabs(shift) <= C(1024);
  }
  explicit __device__ __forceinline__ FoldedExp(C shift) : scaled(shift * C(1.4426950408889634)) {}
  __device__ __forceinline__ C operator()(C x) const {
    if constexpr (sizeof(C) == 4) {
      return device::FastExp2(fmaf(x, 1.4426950408889634f, -scaled));
    } else {
      return std::exp2(x * C(1.4426950408889634) - scaled);
    }
  }
};

// The larger number: one instruction, unlike device::Max, as NaN loses. It shows in the sum.
__device__ __forceinline__ float SoftmaxMax(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ double SoftmaxMax(double a, double b) { return fmax(a, b); }

// The largest of kPacks packs, in as many short chains as there are packs.
template <int kPacks, int kPack, class C>
__device__ __forceinline__ C MaxOf(const C (*value)[kPack]) {
  C max[kPacks];
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    max[j] = value[j][0];
#pragma unroll
    for (int k = 1; k < kPack; ++k) max[j] = SoftmaxMax(max[j], value[j][k]);
  }
#pragma unroll
  for (int j = 1; j < kPacks; ++j) max[0] = SoftmaxMax(max[0], max[j]);
  return max[0];
}

// The same of packs that are still in their words: 16-bit floats are compared in pairs.
template <class T, int kPacks, int kPack>
__device__ __forceinline__ ComputeType<T> MaxOfRaw(const RawPack<T, kPack> (&raw)[kPacks],
                                                   const ComputeType<T> (*value)[kPack]) {
  if constexpr (sizeof(T) == 2 && kPack % 2 == 0 && device::kTargetArch >= 800) {
    uint32_t max[kPacks];
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      max[j] = raw[j].word[0];
#pragma unroll
      for (int w = 1; w < kPack / 2; ++w) max[j] = device::MaxOfPairs<T>(max[j], raw[j].word[w]);
    }
#pragma unroll
    for (int j = 1; j < kPacks; ++j) max[0] = device::MaxOfPairs<T>(max[0], max[j]);
    ComputeType<T> pair[2];
    detail::UnpackPair<T>(max[0], pair);
    return SoftmaxMax(pair[0], pair[1]);
  } else {
    return MaxOf<kPacks>(value);
  }
}

// Maximum and sum of exp(x - maximum) of a growing set of values.
template <class C>
struct OnlineSum {
  C max = NegativeInfinity<C>();
  C sum = 0;

  // Raises the maximum to at least `value`; returns what to subtract from new values before SoftmaxExp.
  __device__ __forceinline__ C RaiseMax(C value) {
    const C raised = device::Max(max, value);
    // While all values are -infinity nothing may be subtracted: infinity minus infinity is NaN.
    const C base = raised == NegativeInfinity<C>() ? C(0) : raised;
    sum *= PreciseExp(max, base);
    max = raised;
    return base;
  }

  // Adds kPacks packs of values, of type T before they were unpacked, whose maximum is `value_max`.
  template <class T, int kPacks, int kPack>
  __device__ __forceinline__ void Add(C value_max, const C (&value)[kPacks][kPack]) {
    const C base = RaiseMax(value_max);
    C sums[kPacks] = {};
    const auto add = [&](auto exponential) {
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
#pragma unroll
        for (int k = 0; k < kPack; ++k) sums[j] += exponential(value[j][k]);
      }
    };
    if (FoldedExp<C>::template Serves<T>(base)) {
      add(FoldedExp<C>(base));
    } else {
      add(ExpBelow<T>{base});
    }
#pragma unroll
    for (int j = 0; j < kPacks; ++j) sum += sums[j];
  }
};

// The maximum over the threads of a row that are in the calling thread's warp.
template <class C>
__device__ __forceinline__ C WarpRowMax(C value) {
  for (unsigned offset = device::Min(blockDim.x, 32u) / 2; offset > 0; offset /= 2) {
    value = SoftmaxMax(value, __shfl_xor_sync(device::kFullWarp, value, static_cast<int>(offset)));
  }
  return value;
}
template <class C>
__device__ __forceinline__ C WarpRowSum(C value) {
  for (unsigned offset = device::Min(blockDim.x, 32u) / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(device::kFullWarp, value, static_cast<int>(offset));
  }
  return value;
}

// Maximum and sum of a row from those of its warps (see RowReduce), with one barrier. `max`: of the caller's warp;
// `sum`: of exp(x - max) over the warp, or 0 or NaN where max is -infinity. A row of -infinity gets NaN as its sum.
template <class C>
__device__ __forceinline__ void CombineWarps(C& max, C& sum, C* max_scratch, C* sum_scratch) {
  if (blockDim.x <= 32) {
    if (max == NegativeInfinity<C>()) sum = max - max;
    return;
  }
  if (threadIdx.x % 32 == 0) {
    max_scratch[threadIdx.x / 32] = max;
    sum_scratch[threadIdx.x / 32] = sum;
  }
  __syncthreads();
  const unsigned warps = blockDim.x / 32, lane = threadIdx.x % kMaxRowWarps;
  unsigned lanes = 2;
  while (lanes < warps) lanes *= 2;
  const unsigned from = lane & (lanes - 1);
  const C warp_max = from < warps ? max_scratch[from] : NegativeInfinity<C>();
  max = warp_max;
  for (unsigned offset = lanes / 2; offset > 0; offset /= 2) {
    max = SoftmaxMax(max, __shfl_xor_sync(device::kFullWarp, max, static_cast<int>(offset)));
  }
  sum = from < warps ? sum_scratch[from] * PreciseExp(warp_max, max) : C(0);
  for (unsigned offset = lanes / 2; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(device::kFullWarp, sum, static_cast<int>(offset));
  }
}

// What turns x into softmax(x) or log-softmax(x), given the row's maximum and sum. Of 16-bit results the sum is taken
// into the exponent.
template <class C>
struct SoftmaxOutput {
  C max, log_sum, inverse_sum;
  bool log;

  __device__ __forceinline__ SoftmaxOutput(C row_max, C row_sum, bool is_log)
      : max(row_max), log_sum(std::log(row_sum)), inverse_sum(C(1) / row_sum), log(is_log) {}

  template <class T>
  __device__ __forceinline__ C Of(C x) const {
    if (log) return x - max - log_sum;
    if constexpr (sizeof(T) > 2) {
      return PreciseExp(x, max) * inverse_sum;
    } else {
      return SoftmaxExp(x - max, log_sum);
    }
  }

  // In place; T is the type that the results will be rounded to.
  template <class T, int kPacks, int kPack>
  __device__ __forceinline__ void Apply(C (&value)[kPacks][kPack]) const {
    const auto apply = [&](auto function) {
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
#pragma unroll
        for (int k = 0; k < kPack; ++k) value[j][k] = function(value[j][k]);
      }
    };
    if (!log && FoldedExp<C>::template Serves<T>(max + log_sum)) {
      apply(FoldedExp<C>(max + log_sum));
    } else {
      apply([this](C x) { return Of<T>(x); });
    }
  }
};

}  // namespace cudaep::kernels
