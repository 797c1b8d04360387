// From sums of products of 8-bit integers to results: zero points, scales, bias, another type.
#pragma once

#include "kernels/elementwise/conversion.cuh"
#include "kernels/pack.h"
#include "kernels/quant/int_gemm_tiles.cuh"

namespace cudaep::kernels::int_gemm {

constexpr int kSumStride = kTile + 8;  // of a tile's rows: what a warp writes is in 32 banks
constexpr int kQuadOfSums = 4;         // neighbours that a thread takes to their results at once

// What rows or columns of a tile bring to their results.
struct Lines {
  uint32_t zero[kTile];
  uint32_t codes[kTile];  // their sums
  float scale[kTile];
  uint32_t bias[kTile];  // bits of a float, or the integer
};

// Read and written 16 bytes at a time.
struct alignas(16) Tiles {
  union {
    struct {
      uint8_t a[kTile * kRowBytes], b[kTile * kRowBytes];
    } codes;
    int32_t sums[kTile * kSumStride];
  };
  Lines row, column;
};

__device__ __forceinline__ float FloatAt(DataType type, const void* data, int64_t at) {
  if (type == DataType::kFloat) return static_cast<const float*>(data)[at];
  if (type == DataType::kFloat16) return Load(static_cast<const Half*>(data)[at]);
  return Load(static_cast<const BFloat16*>(data)[at]);
}

__device__ __forceinline__ uint32_t ZeroAt(DataType type, const void* data, int64_t at) {
  if (data == nullptr) return 0;
  return type == DataType::kInt8 ? static_cast<uint32_t>(static_cast<int32_t>(static_cast<const int8_t*>(data)[at]))
                                 : static_cast<const uint8_t*>(data)[at];
}

__device__ __forceinline__ int64_t PlaceIn(const IntGemmVector& vector, int64_t line) {
  if (vector.period == 1) return 0;
  return line < vector.period ? line : line % vector.period;
}

// Where A has one scale, that of a column has it as well, and y's.
__device__ __forceinline__ bool HasRowScales(const Call& p) { return p.at.a_scale.period != 1; }

__device__ __forceinline__ float WholeScale(const Call& p, float row, float column) {
  const float scale = p.gemm.alpha * row * column;
  return p.at.y_scale == nullptr ? scale : scale / FloatAt(p.gemm.scale_type, p.at.y_scale, 0);
}

// Each thread brings a row or a column.
__device__ __forceinline__ void LoadLines(const Call& p, const Matrices& at, int64_t first_row, int64_t first_column,
                                          Tiles& tiles) {
  static_assert(kThreads == 2 * kTile);
  const IntGemm& g = p.gemm;
  const bool is_row = threadIdx.x < kTile;
  const auto place = static_cast<int>(threadIdx.x) % kTile;
  const int64_t line = (is_row ? first_row : first_column) + place;
  Lines& lines = is_row ? tiles.row : tiles.column;
  if (line >= (is_row ? g.m : g.n)) {  // read together with those in front of it
    lines.zero[place] = lines.bias[place] = 0;
    lines.scale[place] = 0;
    return;
  }
  const IntGemmVector zeros = is_row ? p.at.a_zero : p.at.b_zero, scales = is_row ? p.at.a_scale : p.at.b_scale;
  const DataType type = is_row ? g.a_type : g.b_type;
  int64_t whole = line;  // counted through all matrices
  if (zeros.period != 1 || scales.period != 1 || p.at.bias.period != 1) {
    const int64_t k = g.k == 0 ? 1 : g.k;  // without products there is one matrix
    whole += is_row ? p.at.first_row + at.a_elems / k : p.at.first_column + at.b_elems / k;
  }
  lines.zero[place] = ZeroAt(type, zeros.data, PlaceIn(zeros, whole));
  float scale = scales.data == nullptr ? 1.0f : FloatAt(g.scale_type, scales.data, PlaceIn(scales, whole));
  if (!is_row && !HasRowScales(p)) {
    scale = WholeScale(p, p.at.a_scale.data == nullptr ? 1.0f : FloatAt(g.scale_type, p.at.a_scale.data, 0), scale);
  }
  lines.scale[place] = scale;
  uint32_t bias = 0;
  if (is_row == g.bias_of_rows && p.at.bias.data != nullptr) {
    const int64_t number = PlaceIn(p.at.bias, whole);
    bias = g.bias_type == DataType::kInt32 ? static_cast<const uint32_t*>(p.at.bias.data)[number]
                                           : std::bit_cast<uint32_t>(FloatAt(g.bias_type, p.at.bias.data, number));
  }
  lines.bias[place] = bias;
}

// A warp's quarter.
__device__ __forceinline__ void KeepSums(const Sums& sums, int warp_row, int warp_column, Tiles& tiles) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = warp_row + device::MmaRow(lane, 0), column = warp_column + device::MmaColumn(lane, 0);
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row + i * kMmaRows + half * kMmaRows / 2;
      if (warp_column == 0 && lane % 4 == 0) tiles.row.codes[r] = static_cast<uint32_t>(sums.row[i].value[2 * half]);
#pragma unroll
      for (int j = 0; j < kColumnTiles; ++j) {
        const auto& value = sums.product[i][j].value;
        StorePack(tiles.sums + r * kSumStride + column + j * kMmaColumns,
                  Pack<int32_t, 2>{value[2 * half], value[2 * half + 1]});
      }
    }
  }
  if (warp_row != 0 || lane >= 4) return;
#pragma unroll
  for (int j = 0; j < kColumnTiles; ++j) {
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      tiles.column.codes[column + j * kMmaColumns + v] = static_cast<uint32_t>(sums.column[j].value[v]);
    }
  }
}

template <class Y>
__device__ __forceinline__ Y ResultOf(int32_t acc, float scale, float bias, float y_zero) {
  if constexpr (std::is_same_v<Y, int32_t>) {
    return acc;
  } else if constexpr (std::is_integral_v<Y>) {
    constexpr float kLowest = std::is_signed_v<Y> ? -128.0f : 0.0f, kHighest = kLowest + 255.0f;
    const float y = rintf(static_cast<float>(acc) * scale) + y_zero;
    return static_cast<Y>(static_cast<int32_t>(fminf(fmaxf(y, kLowest), kHighest)));
  } else {
    return Store<Y>(static_cast<float>(acc) * scale + bias);
  }
}

// Of a tile whose sums are kept.
template <class Y>
__device__ __forceinline__ void StoreResults(const Call& p, const Matrices& at, const Tiles& tiles, int64_t first_row,
                                             int64_t first_column) {
  constexpr int kQuadsOfRow = kTile / kQuadOfSums;
  const IntGemm& g = p.gemm;
  const bool row_scales = HasRowScales(p), int_bias = g.bias_type == DataType::kInt32;
  const auto y_zero = static_cast<float>(static_cast<int32_t>(ZeroAt(g.y_type, p.at.y_zero, 0)));
#pragma unroll 1
  for (int quad = static_cast<int>(threadIdx.x); quad < kTile * kQuadsOfRow; quad += kThreads) {
    const int r = quad / kQuadsOfRow, c = quad % kQuadsOfRow * kQuadOfSums;
    const int64_t left = g.n - first_column - c;
    if (first_row + r >= g.m || left <= 0) continue;
    const int64_t to = at.y + (first_row + r) * g.ldc + first_column + c;
    const uint32_t row_zero = tiles.row.zero[r], row_codes = tiles.row.codes[r], row_bias = tiles.row.bias[r];
    const auto sums = LoadPack<kQuadOfSums>(tiles.sums + r * kSumStride + c);
    Pack<Y, kQuadOfSums> y;
#pragma unroll
    for (int i = 0; i < kQuadOfSums; ++i) {
      const uint32_t zero = tiles.column.zero[c + i], bias = tiles.column.bias[c + i];
      uint32_t acc = static_cast<uint32_t>(sums.value[i]) - row_zero * tiles.column.codes[c + i] - zero * row_codes +
                     static_cast<uint32_t>(g.k) * row_zero * zero;
      if (p.at.biases != nullptr) {
        acc += i < left ? static_cast<uint32_t>(p.at.biases[to + i]) : 0;
      } else if (int_bias) {
        acc += row_bias + bias;
      }
      const float scale = tiles.column.scale[c + i];
      const float added = int_bias ? 0.0f : std::bit_cast<float>(row_bias) + std::bit_cast<float>(bias);
      y.value[i] = ResultOf<Y>(static_cast<int32_t>(acc), row_scales ? WholeScale(p, tiles.row.scale[r], scale) : scale,
                               added, y_zero);
    }
    if (p.y_words && left >= kQuadOfSums) {
      StorePack(static_cast<Y*>(p.at.y) + to, y);
      continue;
    }
#pragma unroll
    for (int i = 0; i < kQuadOfSums; ++i) {
      if (i < left) static_cast<Y*>(p.at.y)[to + i] = y.value[i];
    }
  }
}

__device__ __forceinline__ void StoreTile(const Call& p, const Matrices& at, const Tiles& tiles, int64_t first_row,
                                          int64_t first_column) {
  switch (p.gemm.y_type) {
    case DataType::kInt32:
      return StoreResults<int32_t>(p, at, tiles, first_row, first_column);
    case DataType::kFloat:
      return StoreResults<float>(p, at, tiles, first_row, first_column);
    case DataType::kFloat16:
      return StoreResults<Half>(p, at, tiles, first_row, first_column);
    case DataType::kInt8:
      return StoreResults<int8_t>(p, at, tiles, first_row, first_column);
    default:
      return StoreResults<uint8_t>(p, at, tiles, first_row, first_column);
  }
}

}  // namespace cudaep::kernels::int_gemm
