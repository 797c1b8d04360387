// What kernels of products of few rows (few_rows.h) share: their arguments, and how a row's sums end.
#pragma once

#include "kernels/epilogue/activate.cuh"
#include "kernels/gemm/few_rows.h"
#include "kernels/pack.h"

namespace cudaep::kernels::few_rows {

struct Arguments {
  FewRowsPointers at;
  int32_t m, n, k, splits, steps;  // steps: of a split
  // The words are whole: padding might hold what looks like an old pointer to the simulated device.
  Activation activation;
  uint8_t bias, residual, second;  // second: of a gate (gated_product.h)
  ActivationParameters parameters;
};
static_assert(sizeof(Arguments) == sizeof(FewRowsPointers) + 6 * sizeof(int32_t) + sizeof(ActivationParameters));

// What is added to neighbours of a row of C. To be asked for before their sums are there.
template <class T, int N>
struct Addends {
  Pack<T, N> bias{}, residual{};

  __device__ __forceinline__ Addends(const Arguments& p, bool exists, int row, int column) {
    if (p.bias && exists) bias = LoadPack<N>(static_cast<const T*>(p.at.bias) + column);
    if (p.residual && exists) {
      residual = LoadPack<N>(static_cast<const T*>(p.at.residual) + int64_t{row} * p.n + column);
    }
  }
};

template <class T, int N>
__device__ __forceinline__ void Finish(const Arguments& p, float (&sum)[N], const Addends<T, N>& addends, bool exists,
                                       int row, int column) {
  Pack<T, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i) sum[i] += ToFloat(addends.bias.value[i]) + ToFloat(addends.residual.value[i]);
  if (p.activation != Activation::kNone) {
#pragma unroll
    for (float& x : sum) x = ActivateApproximately(p.activation, p.parameters, x);
  }
#pragma unroll
  for (int i = 0; i < N; ++i) result.value[i] = Store<T>(sum[i]);
  if (exists) StorePack(static_cast<T*>(p.at.c) + int64_t{row} * p.n + column, result);
}

// Of a gated product with `p.n` columns in both halves: sums of the half that is activated, and of the other one.
template <class T, int N>
__device__ __forceinline__ void FinishGate(const Arguments& p, const float (&gate)[N], const float (&other)[N],
                                           const Pack<T, N>& gate_bias, const Pack<T, N>& other_bias, int row,
                                           int column) {
  Pack<T, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float activated = ActivateApproximately(p.activation, p.parameters, gate[i] + ToFloat(gate_bias.value[i]));
    result.value[i] = Store<T>(activated * (other[i] + ToFloat(other_bias.value[i])));
  }
  StorePack(static_cast<T*>(p.at.c) + int64_t{row} * (p.n / 2) + column, result);
}

// Of what few_rows.h says of narrow blocks; kInvalidArgument else.
Status LaunchNarrow(DataType type, int columns, const Arguments& arguments, device::Stream stream);

}  // namespace cudaep::kernels::few_rows
