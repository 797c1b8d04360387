// What reductions do with elements: an accumulator with its identity, adding one element, merging two accumulators.
//
// A functor is a class template over the element type with Acc, Identity(), Add(Acc, element), Merge(Acc, Acc) and
// Value(Acc), the result before the post operation. Sums and products of integers wrap in 64 unsigned bits.
#pragma once

#include <cmath>
#include <limits>

#include "device/launch.h"
#include "kernels/reduce/reduce.h"
#include "kernels/reduce/row_reduce.cuh"

namespace cudaep::kernels {

// What follows the accumulation.
enum class ReducePost : uint8_t { kNone, kMean, kSqrt, kLog };

constexpr ReducePost PostOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMean:
      return ReducePost::kMean;
    case ReduceOp::kL2:
      return ReducePost::kSqrt;
    case ReduceOp::kLogSum:
      return ReducePost::kLog;
    default:
      return ReducePost::kNone;
  }
}

template <class T>
inline constexpr bool kSignedInteger = std::is_integral_v<T>&& std::is_signed_v<T>;

// The result type of sums and products before the post operation, and what they accumulate in.
template <class T>
using WideType =
    std::conditional_t<std::is_integral_v<T>, std::conditional_t<kSignedInteger<T>, int64_t, uint64_t>, ComputeType<T>>;
template <class T>
using SumType = std::conditional_t<std::is_integral_v<T>, uint64_t, ComputeType<T>>;

template <class T>
__device__ __forceinline__ SumType<T> Widen(ComputeType<T> value) {
  return static_cast<SumType<T>>(static_cast<WideType<T>>(value));
}

// The transformations of elements that sums exist for.
struct Plain {
  template <class T>
  static __device__ __forceinline__ SumType<T> Apply(SumType<T> value) {
    return value;
  }
};
struct Squared {
  template <class T>
  static __device__ __forceinline__ SumType<T> Apply(SumType<T> value) {
    return value * value;
  }
};
struct Magnitude {
  template <class T>
  static __device__ __forceinline__ SumType<T> Apply(SumType<T> value) {
    if constexpr (kSignedInteger<T>) {
      return static_cast<int64_t>(value) < 0 ? 0 - value : value;
    } else if constexpr (std::is_integral_v<T>) {
      return value;
    } else {
      return std::abs(value);
    }
  }
};

template <class T, class Transform>
struct SumOf {
  using Acc = SumType<T>;
  static __device__ __forceinline__ Acc Identity() { return 0; }
  static __device__ __forceinline__ Acc Add(Acc acc, ComputeType<T> v) {
    return acc + Transform::template Apply<T>(Widen<T>(v));
  }
  static __device__ __forceinline__ Acc Merge(Acc a, Acc b) { return a + b; }
  static __device__ __forceinline__ WideType<T> Value(Acc acc) { return static_cast<WideType<T>>(acc); }
};
template <class T>
using Sum = SumOf<T, Plain>;
template <class T>
using SumOfSquares = SumOf<T, Squared>;
template <class T>
using SumOfMagnitudes = SumOf<T, Magnitude>;

template <class T>
struct Product {
  using Acc = SumType<T>;
  static __device__ __forceinline__ Acc Identity() { return 1; }
  static __device__ __forceinline__ Acc Add(Acc acc, ComputeType<T> v) { return acc * Widen<T>(v); }
  static __device__ __forceinline__ Acc Merge(Acc a, Acc b) { return a * b; }
  static __device__ __forceinline__ WideType<T> Value(Acc acc) { return static_cast<WideType<T>>(acc); }
};

// Largest (kMaximum) or smallest element; NaN wins over everything.
template <class T, bool kMaximum>
struct Extremum {
  using Acc = std::conditional_t<sizeof(T) == 1, int, ComputeType<T>>;  // bytes are shuffled as int
  static __device__ __forceinline__ Acc Identity() {
    using Limits = std::numeric_limits<std::conditional_t<std::is_integral_v<T>, T, Acc>>;
    if constexpr (std::is_integral_v<T>) {
      return kMaximum ? Limits::lowest() : Limits::max();
    } else {
      return kMaximum ? -Limits::infinity() : Limits::infinity();
    }
  }
  static __device__ __forceinline__ Acc Add(Acc acc, ComputeType<T> v) { return Merge(acc, static_cast<Acc>(v)); }
  static __device__ __forceinline__ Acc Merge(Acc a, Acc b) {
    const bool b_wins = (kMaximum ? a < b : b < a) || b != b;
    return b_wins ? b : a;
  }
  static __device__ __forceinline__ Acc Value(Acc acc) { return acc; }
};
template <class T>
using Maximum = Extremum<T, true>;
template <class T>
using Minimum = Extremum<T, false>;

// Maximum and sum of exp(x - maximum), so that nothing overflows; integers in fp64.
template <class C>
struct ScaledSum {
  C max, sum;
};

template <class T>
struct LogSumExp {
  using C = std::conditional_t<std::is_integral_v<T>, double, ComputeType<T>>;
  using Acc = ScaledSum<C>;
  static __device__ __forceinline__ Acc Identity() { return {NegativeInfinity<C>(), 0}; }
  static __device__ __forceinline__ Acc Add(Acc acc, ComputeType<T> v) { return Merge(acc, {static_cast<C>(v), 1}); }
  static __device__ __forceinline__ Acc Merge(Acc a, Acc b) {
    const C difference = b.max - a.max;
    // Equal maxima need no scaling; equal infinities have no difference.
    const C scale = a.max == b.max ? C(1) : Exp(-std::abs(difference));
    return difference > 0 ? Acc{b.max, a.sum * scale + b.sum} : Acc{a.max, a.sum + b.sum * scale};
  }
  static __device__ __forceinline__ C Value(Acc acc) { return acc.max + std::log(acc.sum); }

 private:
  static __device__ __forceinline__ float Exp(float x) { return device::FastExp(x); }
  static __device__ __forceinline__ double Exp(double x) { return exp(x); }
};

template <class A>
__device__ __forceinline__ A ShuffleXor(A value, int mask) {
  return __shfl_xor_sync(device::kFullWarp, value, mask);
}
template <class C>
__device__ __forceinline__ ScaledSum<C> ShuffleXor(ScaledSum<C> value, int mask) {
  return {__shfl_xor_sync(device::kFullWarp, value.max, mask), __shfl_xor_sync(device::kFullWarp, value.sum, mask)};
}

// An integer result from fp64, truncated; what is no number or too small becomes the lowest value, as on x86.
template <class T>
__device__ __forceinline__ T IntegerFrom(double value) {
  using Limits = std::numeric_limits<T>;
  if (!(value > static_cast<double>(Limits::lowest()))) return Limits::lowest();
  return value >= static_cast<double>(Limits::max()) ? Limits::max() : static_cast<T>(value);
}

template <class T, class W>
__device__ __forceinline__ T Finish(W value, ReducePost post, int64_t count) {
  if constexpr (std::is_integral_v<T>) {
    switch (post) {
      case ReducePost::kMean:
        return count == 0 ? T(0) : static_cast<T>(value / static_cast<W>(count));
      case ReducePost::kSqrt:
        return IntegerFrom<T>(sqrt(static_cast<double>(value)));
      case ReducePost::kLog:
        return IntegerFrom<T>(log(static_cast<double>(value)));
      default:
        break;
    }
    if constexpr (std::is_same_v<W, double>) return IntegerFrom<T>(value);
    return static_cast<T>(value);
  } else {
    switch (post) {
      case ReducePost::kMean:
        return Store<T>(value / static_cast<W>(count));
      case ReducePost::kSqrt:
        return Store<T>(std::sqrt(value));
      case ReducePost::kLog:
        return Store<T>(std::log(value));
      default:
        return Store<T>(value);
    }
  }
}

}  // namespace cudaep::kernels
