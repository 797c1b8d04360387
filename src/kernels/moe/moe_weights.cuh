// What the products of a mixture of experts share: where weights lie, what they are worth, and what ends a product.
#pragma once

#include <cmath>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/intrinsics.h"
#include "device/launch.h"
#include "kernels/elementwise/gelu.cuh"
#include "kernels/moe/moe_arguments.h"
#include "kernels/pack.h"

namespace cudaep::kernels {

// A row of weights: the matrix, and its index in it, all experts counted.
struct MoeWeightRow {
  int matrix;
  int64_t expert, row;  // row: of the expert
};

// The row behind a column of results. Gate and linear part of a result are columns side by side.
__device__ __forceinline__ MoeWeightRow MoeRowOf(const MoeArguments& p, int64_t expert, int64_t column) {
  switch (p.gate) {
    case MoeGate::kHalves:
      return {0, expert, column % 2 * p.n + column / 2};
    case MoeGate::kSeparate:
      return {static_cast<int>(column % 2), expert, column / 2};
    default:
      return {0, expert, column};
  }
}

// Eight packed weights of 2, 4 or 8 bits as they lie in memory.
template <int kBits>
struct MoeCodes {
  uint32_t word[kBits == 8 ? 2 : 1];

  __device__ __forceinline__ void Load(const uint8_t* from) {
    if constexpr (kBits == 8) {
      const auto both = *reinterpret_cast<const Pack<uint32_t, 2>*>(from);
      word[0] = both.value[0], word[1] = both.value[1];
    } else if constexpr (kBits == 4) {
      word[0] = *reinterpret_cast<const uint32_t*>(from);
    } else {
      word[0] = *reinterpret_cast<const uint16_t*>(from);
    }
  }
  __device__ __forceinline__ uint32_t Code(int i) const {
    constexpr int kOfWord = kBits == 8 ? 4 : 8;
    return word[i / kOfWord] >> (i % kOfWord * kBits) & ((1u << kBits) - 1u);
  }
};

// What is selected by hand is never an index into arguments, which would make a copy of them.
__device__ __forceinline__ const void* MoePick(const void* const (&pointers)[2], int matrix) {
  return matrix == 0 ? pointers[0] : pointers[1];
}

__device__ __forceinline__ const uint8_t* MoeRowBytes(const MoeArguments& p, const MoeWeightRow& at) {
  return static_cast<const uint8_t*>(MoePick(p.at.weights.weight, at.matrix)) +
         (at.expert * p.matrix_rows + at.row) * p.row_bytes;
}

template <class T>
__device__ __forceinline__ float MoeBias(const MoeArguments& p, const MoeWeightRow& at) {
  const auto* const bias = static_cast<const T*>(MoePick(p.at.weights.bias, at.matrix));
  return bias == nullptr ? 0.0f : Load(bias[at.expert * p.matrix_rows + at.row]);
}

template <class T>
__device__ __forceinline__ float MoeScale(const MoeArguments& p, const MoeWeightRow& at, int64_t block) {
  const auto* const scale = static_cast<const T*>(MoePick(p.at.weights.scale, at.matrix));
  return Load(scale[(at.expert * p.matrix_rows + at.row) * p.blocks + block]);
}

// Zero points without blocks are packed along the rows.
__device__ __forceinline__ float MoeZero(const MoeArguments& p, const MoeWeightRow& at, int64_t block) {
  const auto* const zero = static_cast<const uint8_t*>(MoePick(p.at.weights.zero, at.matrix));
  if (zero == nullptr) return static_cast<float>(1 << (p.bits - 1));
  const bool blocks = p.log_block != kMoeWholeRows;
  const int64_t row = blocks ? at.expert * p.matrix_rows + at.row : at.expert;
  const int64_t bit = (blocks ? block : at.row) * p.bits;
  return static_cast<float>(zero[row * p.zero_bytes + bit / 8] >> (bit % 8) & ((1 << p.bits) - 1));
}

__device__ __forceinline__ int64_t MoeBlockOf(const MoeArguments& p, int64_t k) { return k >> p.log_block; }

// One weight; `row` is MoeRowBytes of `at`.
template <class T>
__device__ __forceinline__ float MoeWeight(const MoeArguments& p, const MoeWeightRow& at, const uint8_t* row,
                                           int64_t k) {
  if (p.bits == 0) return Load(reinterpret_cast<const T*>(row)[k]);
  const int64_t bit = k * p.bits, block = MoeBlockOf(p, k);
  const auto code = static_cast<float>(row[bit / 8] >> (bit % 8) & ((1 << p.bits) - 1));
  return (code - MoeZero(p, at, block)) * MoeScale<T>(p, at, block);
}

// The row of a that an entry multiplies; `place`: where the entry is in the order.
__device__ __forceinline__ int64_t MoeInputRow(const MoeArguments& p, int64_t place, int64_t entry) {
  return p.second ? place : entry / p.top_k;
}

__device__ __forceinline__ float MoeLimited(float x, float least, float most) {
  return x < least ? least : (x > most ? most : x);  // NaN stays
}

template <bool kExact>
__device__ __forceinline__ float MoeSigmoid(float x) {
  return kExact ? 1.0f / (1.0f + std::exp(-x)) : FastSigmoid(x);
}

// kExact: for results of fp32.
template <bool kExact>
__device__ __forceinline__ float MoeActivate(const MoeArguments& p, float x) {
  switch (p.activation) {
    case MoeActivation::kRelu:
      return x < 0 ? 0.0f : x;
    case MoeActivation::kRelu2:
      return x < 0 ? 0.0f : x * x;
    case MoeActivation::kGelu:
      return kExact ? GeluByTanh()(x) : GeluByTanh().Approximate(x);
    case MoeActivation::kSilu:
      return x * MoeSigmoid<kExact>(x);
    default:
      return x;
  }
}

template <bool kExact>
__device__ __forceinline__ float MoeGated(const MoeArguments& p, float gate, float linear) {
  if (p.activation != MoeActivation::kSwiglu) return MoeActivate<kExact>(p, gate) * linear;
  const float limited = p.limit_after ? gate : MoeLimited(gate, -INFINITY, p.limit);
  const float swish = limited * MoeSigmoid<kExact>(p.alpha * limited);
  return (p.limit_after ? MoeLimited(swish, -INFINITY, p.limit) : swish) *
         (MoeLimited(linear, -p.limit, p.limit) + p.beta);
}

// Ends two columns side by side, of which one or both are results of y's row.
template <class T>
__device__ __forceinline__ void MoeFinish(const MoeArguments& p, int64_t expert, int64_t column, float first,
                                          float second, T* row) {
  constexpr bool kExact = sizeof(T) == sizeof(float);
  if (column >= p.columns) return;
  first += MoeBias<T>(p, MoeRowOf(p, expert, column));
  if (column + 1 < p.columns) second += MoeBias<T>(p, MoeRowOf(p, expert, column + 1));
  if (p.gate != MoeGate::kNone) {
    row[column / 2] = Store<T>(MoeGated<kExact>(p, first, second));
    return;
  }
  row[column] = Store<T>(MoeActivate<kExact>(p, first));
  if (column + 1 < p.columns) row[column + 1] = Store<T>(MoeActivate<kExact>(p, second));
}

}  // namespace cudaep::kernels
