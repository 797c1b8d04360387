// What the kernels of layer and RMS normalisation read and write.
#pragma once

#include "device/launch.h"
#include "kernels/common/raw_pack.cuh"
#include "kernels/fast_divide.h"
#include "kernels/norm/layer_norm.h"

namespace cudaep::kernels {

// What the kernels read, and the sizes. Outputs are arguments of their own, so that they count as written.
template <class T, class V>
struct LayerNormInput {
  const T* x;
  const T* skip;
  const T* bias;
  const V* scale;
  const V* beta;
  int64_t rows, skip_rows;
  int32_t elems, row_packs;
  AffineMap scale_map, beta_map;
  FastDivider scale_repeat, beta_repeat;  // column_repeat of the maps, of packs that lie within one repeat
  double epsilon;
  // Whole words: padding would hold whatever the stack did.
  RowStatistic statistic;
  int32_t double_statistics;

  __device__ __forceinline__ bool centred() const {
    return statistic == RowStatistic::kRms || statistic == RowStatistic::kL2;
  }
};

template <class T>
struct LayerNormOutput {
  void* y;
  T* sum;
  void* mean;
  void* inv_std;
};

template <int kPack, class V>
__device__ __forceinline__ RawPack<V, kPack> Repeat(V value) {
  Pack<V, kPack> pack;
#pragma unroll
  for (int k = 0; k < kPack; ++k) pack.value[k] = value;
  return std::bit_cast<RawPack<V, kPack>>(pack);
}

// A scale or shift of one row, or of all rows. Packs are planned for maps that give one of them as many columns as it
// has, or a single one.
template <int kPack, class V>
__device__ __forceinline__ RawPack<V, kPack> LoadAffine(const V* from, const AffineMap& map, const FastDivider& repeat,
                                                        int64_t row, int column, int32_t elems) {
  if (map.rows > 1) from += row / map.row_repeat % map.rows * map.columns;
  if (map.columns == elems) return LoadRaw<kPack>(from + column);
  if constexpr (kPack == 1) return LoadRaw<1>(from + column / map.column_repeat % map.columns);
  return Repeat<kPack>(from[repeat.Divide(static_cast<uint32_t>(column))]);
}

// Scale and shift of a pack; 1 and 0 where there are none.
template <int kPack, class T, class V>
__device__ __forceinline__ RawPack<V, kPack> LoadScale(const LayerNormInput<T, V>& in, int64_t row, int column) {
  if (in.scale == nullptr) return Repeat<kPack>(Store<V>(ComputeType<V>(1)));
  return LoadAffine<kPack>(in.scale, in.scale_map, in.scale_repeat, row, column, in.elems);
}
template <int kPack, class T, class V>
__device__ __forceinline__ RawPack<V, kPack> LoadBeta(const LayerNormInput<T, V>& in, int64_t row, int column) {
  if (in.beta == nullptr) return {};
  return LoadAffine<kPack>(in.beta, in.beta_map, in.beta_repeat, row, column, in.elems);
}

// 1 / sqrt(x), as good as results of type T want it.
template <class T>
__device__ __forceinline__ ComputeType<T> InverseRoot(ComputeType<T> x) {
  if constexpr (sizeof(T) == 2) {
    return rsqrtf(x);
  } else {
    return ComputeType<T>(1) / std::sqrt(x);
  }
}

// One over what a row's elements are divided by, from the sum of their squared deviations.
template <class T>
__device__ __forceinline__ ComputeType<T> InverseOf(RowStatistic statistic, ComputeType<T> squares,
                                                    ComputeType<T> inverse_elems, ComputeType<T> epsilon) {
  using C = ComputeType<T>;
  if (statistic == RowStatistic::kDeviation) return C(1) / (std::sqrt(squares * inverse_elems) + epsilon);
  if (statistic == RowStatistic::kL2) return squares == C(0) ? C(0) : InverseRoot<T>(squares);
  return InverseRoot<T>(squares * inverse_elems + epsilon);
}

template <class T, class V, class C>
__device__ __forceinline__ void WriteStatistic(const LayerNormInput<T, V>& in, void* out, int64_t row, C value) {
  if (out == nullptr) return;
  if (in.double_statistics) {
    static_cast<double*>(out)[row] = value;
  } else {
    static_cast<float*>(out)[row] = static_cast<float>(value);
  }
}

}  // namespace cudaep::kernels
