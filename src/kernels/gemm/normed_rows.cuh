// What products around a normalisation (normed_rows.h) share.
#pragma once

#include "kernels/gemm/many_rows.cuh"
#include "kernels/gemm/normed_rows.h"

namespace cudaep::kernels {

// Three warps bring what a tile has (warpgroup::Bringing::kEachTile): a thread for each row, and behind these a warp
// for the columns.
__device__ __forceinline__ int BringerNumber() { return static_cast<int>(threadIdx.x) - 32; }
static_assert(warpgroup::BringingWarps(warpgroup::Bringing::kEachTile) * 32 == device::kWarpgroupRows + 32);

// Rows as they are kept, by their moments.
struct KeptRows {
  static constexpr int kRows = device::kWarpgroupRows;  // of a tile
  // normalised = factor * u + shift * gamma + beta.
  struct Row {
    float factor, shift;
  };

  const Pack<float, 4>* moments;  // [m, pairs], of two parts each
  int32_t pairs;
  float epsilon, scale;
  float noise;  // share of the squared mean below which a variance is what rounding u makes

  // Of a tile's rows, up to `m`; to rehearse, of what lies at `columns`, as if that were a row.
  __device__ __forceinline__ void Bring(Row (&to)[kRows], int first, int m, const float* columns,
                                        bool rehearses) const {
    const int row = device::Min(first + BringerNumber(), m - 1), count = rehearses ? 1 : pairs;
    const Pack<float, 4>* const at =
        rehearses ? reinterpret_cast<const Pack<float, 4>*>(columns) : moments + int64_t{row} * pairs;
    constexpr int kBatch = 12;  // pairs that are read at once
    const int own = BringerNumber();
    if (own >= kRows) return;
    // Means are taken from the first one, which is near: their squares lose nothing where the mean is large.
    const float pivot = at->value[0];
    float means = 0, squares = 0, variances = 0;
    for (int begin = 0; begin < count; begin += kBatch) {
      Pack<float, 4> pair[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) pair[i] = at[device::Min(begin + i, count - 1)];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const bool has = begin + i < count;
        const float one = has ? pair[i].value[0] - pivot : 0.0f, other = has ? pair[i].value[2] - pivot : 0.0f;
        means += one + other, squares = fmaf(one, one, fmaf(other, other, squares));
        variances += has ? pair[i].value[1] + pair[i].value[3] : 0.0f;
      }
    }
    const float each = 0.5f / static_cast<float>(pairs);
    const float mean = means * each, variance = (squares + variances) * each - mean * mean;
    // A maximum would lose NaN.
    const float of_row = pivot + mean, inverse = rsqrtf((variance < 0 ? 0.0f : variance) + epsilon);
    const float deviation = variance < of_row * of_row * noise ? 0.0f : inverse;
    to[own] = {scale * deviation, -of_row * deviation};
  }
};

template <class T>
KeptRows RowsOf(const float* moments, int64_t width, const KeptNorm& norm) {
  constexpr float kHalfUnit = std::is_same_v<T, Half> ? 0x1p-12f : 0x1p-9f;
  return {.moments = reinterpret_cast<const Pack<float, 4>*>(moments),
          .pairs = static_cast<int32_t>(width / kNormedPack),
          .epsilon = norm.epsilon,
          .scale = norm.scale,
          .noise = kHalfUnit * kHalfUnit};
}

// Vectors of a tile's columns, of a matrix [vectors, n]; 0 beyond it.
template <int kVectors, int kColumns>
__device__ __forceinline__ void BringVectors(float (&to)[kVectors][kColumns], const float* columns, int column, int n) {
  constexpr int kEach = 4;
  const int first = (BringerNumber() - KeptRows::kRows) * kEach;
  if (first < 0) return;
#pragma unroll
  for (int begin = 0; begin < kVectors * kColumns; begin += 32 * kEach) {
    const int vector = (begin + first) / kColumns, at = (begin + first) % kColumns;
    const bool has = column + at < n;
    StorePack(&to[vector][at],
              has ? LoadPack<kEach>(columns + int64_t{vector} * n + column + at) : Pack<float, kEach>{});
  }
}

inline Status CheckNormed(DataType type, int64_t m, int64_t n, int64_t k, int64_t width, const WarpgroupPlan& plan) {
  if (type != DataType::kFloat16 && type != DataType::kBFloat16) {
    return NotSupported("a product with normalised rows of ", DataTypeName(type));
  }
  if (n % kManyRowsColumns != 0 || k <= 0 || k % kManyRowsPack != 0 || width % kNormedPack != 0 ||
      !IsFlat(plan.tiles)) {
    return InvalidArgument("a product with normalised rows, [", m, ',', k, "] by [", n, ',', k, "] by tiles of ",
                           WarpgroupRows(plan.tiles), " rows, that is no whole packs, or by other tiles");
  }
  return Status::Ok();
}

}  // namespace cudaep::kernels
