// What the kernels of layer and RMS normalisation read and write.
#pragma once

#include "device/launch.h"
#include "kernels/common/raw_pack.cuh"
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
  double epsilon;
  // Whole words: padding would hold whatever the stack did.
  int32_t rms, double_statistics;
};

template <class T>
struct LayerNormOutput {
  void* y;
  T* sum;
  void* mean;
  void* inv_std;
};

// A scale or shift of one row, or of all rows.
template <int kPack, class V>
__device__ __forceinline__ RawPack<V, kPack> LoadAffine(const V* from, const AffineMap& map, int64_t row, int column,
                                                        int32_t elems) {
  if (map.rows > 1) from += row / map.row_repeat % map.rows * map.columns;
  if constexpr (kPack == 1) {  // packs are planned for whole rows only
    if (map.columns != elems) return LoadRaw<1>(from + column / map.column_repeat % map.columns);
  }
  return LoadRaw<kPack>(from + column);
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
