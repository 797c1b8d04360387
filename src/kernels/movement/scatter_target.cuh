// Where an update goes, and how it is combined with what is there.
#pragma once

#include "core/data_type_traits.h"
#include "kernels/movement/index_tuples.cuh"
#include "kernels/movement/scatter.h"
#include "kernels/movement/strided_source.cuh"

namespace cudaep::kernels {

template <class Index>
struct ScatterTarget {
  IndexTuples tuples;
  bool has_base;
  StridedView<Index> base;

  // -1 for an update that is left out.
  __device__ __forceinline__ int64_t Row(Index update) const {
    const int64_t number[] = {static_cast<int64_t>(update)};
    int64_t row[1];
    Rows(number, row);
    return row[0];
  }
  // Of several at once.
  template <int kCount>
  __device__ __forceinline__ void Rows(const int64_t (&update)[kCount], int64_t (&row)[kCount]) const {
    RowsOfTuples(tuples, update, row);
    if (!has_base) return;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      Index row_left;
      const int64_t offset = base.Offset(static_cast<Index>(update[j]), &row_left);
      row[j] = row[j] < 0 ? row[j] : row[j] + offset;
    }
  }
};

template <class Index>
ScatterTarget<Index> MakeScatterTarget(const Scatter& scatter) {
  ScatterTarget<Index> target{scatter.tuples, scatter.base.rank > 0, {}};
  if (target.has_base) target.base = MakeStridedView<Index>(scatter.base, 1);
  return target;
}

// NaN wins, as one and the same, and of two zeros the one of the matching sign, so that the order does not matter.
template <class C>
__device__ __forceinline__ C Larger(C a, C b) {
  if constexpr (std::is_floating_point_v<C>) {
    if (a != a || b != b) return static_cast<C>(NAN);
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a < b ? b : a;
}
template <class C>
__device__ __forceinline__ C Smaller(C a, C b) {
  if constexpr (std::is_floating_point_v<C>) {
    if (a != a || b != b) return static_cast<C>(NAN);
    if (a == b) return std::signbit(a) ? a : b;
  }
  return b < a ? b : a;
}

// Of compute types; a bool adds by or and multiplies by and.
template <class C>
__device__ __forceinline__ C CombineUpdate(C a, C b, ScatterReduction reduction) {
  switch (reduction) {
    case ScatterReduction::kAdd:
      if constexpr (std::is_same_v<C, bool>) return a || b;
      return static_cast<C>(a + b);
    case ScatterReduction::kMul:
      if constexpr (std::is_same_v<C, bool>) return a && b;
      return static_cast<C>(a * b);
    case ScatterReduction::kMax:
      return Larger(a, b);
    case ScatterReduction::kMin:
      return Smaller(a, b);
    default:
      return b;
  }
}

// The reductions of LaunchScatter.
Status LaunchScatterAtomic(const Scatter& scatter, const void* updates, void* out, device::Stream stream);

inline constexpr int kScatterThreads = 256;

inline device::LaunchConfig ScatterConfig(int64_t threads) {
  return {.grid = {static_cast<unsigned>(CeilDiv<int64_t>(threads, kScatterThreads))},
          .block = {kScatterThreads},
          .programmatic = true};
}

}  // namespace cudaep::kernels
