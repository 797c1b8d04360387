// What reductions do with elements: an accumulator with its identity, adding one element, merging two accumulators.
//
// A functor is a class template over the element type, made from the launch's arguments and passed to the kernel by
// value:
//   Acc                         what is carried along, at most kMaxAccumulatorBytes;
//   Result                      the element type of the output;
//   Identity()                  an Acc that changes nothing;
//   AddBatch<n>(Acc, elements)  of several at once; only where that is better than one by one, and positions do not
//                               matter;
//   Add(Acc, element, index)    `index` counts the elements reduced into one output, in the order of memory; a thread
//                               adds them in ascending order;
//   Word, AddWords<columns>(Pack of words, Acc*)
//                               of an access's elements as words, all to one Acc or each to its own; likewise;
//   Merge(Acc, Acc)             of any two disjoint sets, in any order: the result depends on the sets alone where
//                               positions matter;
//   Value(Acc)                  the result before the post operation.
// Sums and products of integers wrap in 64 unsigned bits.
#pragma once

#include <cmath>
#include <limits>

#include "device/launch.h"
#include "kernels/common/row_reduce.cuh"
#include "kernels/reduce/reduce.h"

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
  using Result = T;
  explicit SumOf(const ReduceArgs&) {}
  __device__ __forceinline__ Acc Identity() const { return 0; }
  __device__ __forceinline__ Acc Add(Acc acc, ComputeType<T> v, int64_t) const {
    return acc + Transform::template Apply<T>(Widen<T>(v));
  }
  __device__ __forceinline__ Acc Merge(Acc a, Acc b) const { return a + b; }
  __device__ __forceinline__ WideType<T> Value(Acc acc) const { return static_cast<WideType<T>>(acc); }
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
  using Result = T;
  explicit Product(const ReduceArgs&) {}
  __device__ __forceinline__ Acc Identity() const { return 1; }
  __device__ __forceinline__ Acc Add(Acc acc, ComputeType<T> v, int64_t) const { return acc * Widen<T>(v); }
  __device__ __forceinline__ Acc Merge(Acc a, Acc b) const { return a * b; }
  __device__ __forceinline__ WideType<T> Value(Acc acc) const { return static_cast<WideType<T>>(acc); }
};

// Elements as warps exchange them: small integers as int.
template <class T>
using ShuffledType = std::conditional_t<std::is_integral_v<T> && (sizeof(T) < 4), int, ComputeType<T>>;

// Largest (kMaximum) or smallest element; NaN wins over everything.
template <class T, bool kMaximum>
struct Extremum {
  using Acc = ShuffledType<T>;
  using Result = T;
  explicit Extremum(const ReduceArgs&) {}
  // What no element is worse than.
  static __device__ __forceinline__ Acc Worst() {
    using Limits = std::numeric_limits<std::conditional_t<std::is_integral_v<T>, T, Acc>>;
    if constexpr (std::is_integral_v<T>) {
      return kMaximum ? Limits::lowest() : Limits::max();
    } else {
      return kMaximum ? -Limits::infinity() : Limits::infinity();
    }
  }
  __device__ __forceinline__ Acc Identity() const { return Worst(); }
  __device__ __forceinline__ Acc Add(Acc acc, ComputeType<T> v, int64_t) const {
    return Merge(acc, static_cast<Acc>(v));
  }
  __device__ __forceinline__ Acc Merge(Acc a, Acc b) const {
    const bool b_wins = (kMaximum ? a < b : b < a) || b != b;
    return b_wins ? b : a;
  }
  __device__ __forceinline__ Acc Value(Acc acc) const { return acc; }
};
template <class T>
using Maximum = Extremum<T, true>;
template <class T>
using Minimum = Extremum<T, false>;

// An element and where it was found.
template <class C>
struct Positioned {
  C value;
  int32_t position;
};

// The position of the largest (kMaximum) or smallest element. NaN wins over numbers.
template <class T, bool kMaximum>
struct ArgExtremum {
  using C = ShuffledType<T>;
  using Acc = Positioned<C>;
  using Result = int64_t;
  bool last;

  explicit ArgExtremum(const ReduceArgs& args) : last(args.last) {}
  // Position -1 of the worst value is that of no element, and for the first extremum also stands for 0: it stays where
  // all elements are as bad.
  __device__ __forceinline__ Acc Identity() const { return {Extremum<T, kMaximum>::Worst(), -1}; }
  __device__ __forceinline__ Acc Add(Acc acc, ComputeType<T> v, int64_t index) const {
    const C value = static_cast<C>(v);
    const bool take = last ? !IsBetter(acc.value, value) : IsBetter(value, acc.value);
    return take ? Acc{value, static_cast<int32_t>(index)} : acc;
  }
  __device__ __forceinline__ Acc Merge(Acc a, Acc b) const {
    const bool b_is_further = (a.position < b.position) == last;
    return IsBetter(b.value, a.value) || (b_is_further && !IsBetter(a.value, b.value)) ? b : a;
  }
  __device__ __forceinline__ int64_t Value(Acc acc) const { return device::Max(acc.position, 0); }

 private:
  static __device__ __forceinline__ bool IsBetter(C a, C b) { return (kMaximum ? b < a : a < b) || (a != a && b == b); }
};
template <class T>
using ArgMaximum = ArgExtremum<T, true>;
template <class T>
using ArgMinimum = ArgExtremum<T, false>;

// Maximum and sum of exp(x - maximum), so that nothing overflows; integers in fp64.
template <class C>
struct ScaledSum {
  C max, sum;
};

template <class T>
struct LogSumExp {
  using C = std::conditional_t<std::is_integral_v<T>, double, ComputeType<T>>;
  using Acc = ScaledSum<C>;
  using Result = T;
  explicit LogSumExp(const ReduceArgs&) {}
  __device__ __forceinline__ Acc Identity() const { return {NegativeInfinity<C>(), 0}; }
  __device__ __forceinline__ Acc Add(Acc acc, ComputeType<T> v, int64_t) const {
    return Merge(acc, {static_cast<C>(v), 1});
  }
  __device__ __forceinline__ Acc Merge(Acc a, Acc b) const {
    const C difference = b.max - a.max;
    // Equal maxima need no scaling; equal infinities have no difference.
    const C scale = a.max == b.max ? C(1) : Exp(-std::abs(difference));
    return difference > 0 ? Acc{b.max, a.sum * scale + b.sum} : Acc{a.max, a.sum + b.sum * scale};
  }
  __device__ __forceinline__ C Value(Acc acc) const { return acc.max + std::log(acc.sum); }

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

template <class C>
__device__ __forceinline__ Positioned<C> ShuffleXor(Positioned<C> value, int mask) {
  return {__shfl_xor_sync(device::kFullWarp, value.value, mask),
          __shfl_xor_sync(device::kFullWarp, value.position, mask)};
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
  if constexpr (std::is_class_v<W>) {
    return value;
  } else if constexpr (sizeof(T) == 1) {
    return static_cast<T>(value);  // nothing follows extrema and means of codes
  } else if constexpr (std::is_integral_v<T>) {
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
