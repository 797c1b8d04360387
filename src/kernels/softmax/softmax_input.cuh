// What the kernels for contiguous rows read, and how.
#pragma once

#include "kernels/common/raw_pack.cuh"
#include "kernels/softmax/softmax.h"
#include "kernels/softmax/softmax_math.cuh"

namespace cudaep::kernels {

template <class T>
struct SoftmaxInput {
  const T* x;
  const T* bias;
  int64_t rows;
  int32_t row_packs;
  BiasRows bias_rows;

  template <int kPack>
  __device__ __forceinline__ int64_t BiasOffset(int64_t row) const {
    if (bias == nullptr || bias_rows.count == 1) return 0;
    return row / bias_rows.repeat % bias_rows.count * row_packs * kPack;
  }
};

// value += the pack at `from`.
template <int kPack, class T>
__device__ __forceinline__ void AddPack(const T* from, ComputeType<T>* value) {
  ComputeType<T> term[kPack];
  UnpackCompute<T, kPack>(LoadRaw<kPack>(from), term);
#pragma unroll
  for (int k = 0; k < kPack; ++k) value[k] += term[k];
}
// Fills in what changes neither maximum nor sum.
template <int kPack, class C>
__device__ __forceinline__ void FillBeyondEnd(C* value) {
#pragma unroll
  for (int k = 0; k < kPack; ++k) value[k] = NegativeInfinity<C>();
}

}  // namespace cudaep::kernels
