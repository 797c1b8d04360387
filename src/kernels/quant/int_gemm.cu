#include <algorithm>

#include "core/checked_math.h"
#include "device/tensor_core.h"
#include "kernels/elementwise/conversion.cuh"
#include "kernels/pack.h"
#include "kernels/quant/int_gemm.h"

namespace cudaep::kernels {
namespace {

constexpr int kTile = 64;      // rows, columns and bytes of the inner dimension of a block's step
constexpr int kRowBytes = 80;  // of a tile in shared memory: the words that a warp reads are in 32 banks
constexpr int kThreads = 128;  // four warps, each with a quarter of the tile
constexpr int kWarpTile = 32;
constexpr int kMmaRows = 16, kMmaColumns = 8;
constexpr int kRowTiles = kWarpTile / kMmaRows, kColumnTiles = kWarpTile / kMmaColumns;
constexpr int kPieces = kTile * kTile / 16 / kThreads;  // pieces of 16 bytes that a thread brings of a tile
constexpr int64_t kMostBlocks = 65535;                  // of grid.y and grid.z

struct Words {
  uint32_t word[4];
};

struct Call {
  IntGemm gemm;
  IntGemmPointers at;
  int64_t batches;
  bool a_words, b_words;  // 16 bytes of A, and of B 16 (transposed) or 4, may be loaded at once
};

// A matrix of the batch.
struct Matrices {
  const uint8_t *a, *b;
  int64_t y, first_row, first_column;
};

__device__ __forceinline__ Matrices MatricesOf(const Call& p, int64_t index) {
  int64_t a = 0, b = 0, y = 0;
  for (int d = kIntGemmBatchRank - 1; d >= 0; --d) {
    const IntGemmBatch& batch = p.gemm.batch[d];
    const int64_t at = index % batch.size;
    index /= batch.size;
    a += at * batch.stride_a;
    b += at * batch.stride_b;
    y += at * batch.stride_c;
  }
  const int64_t k = p.gemm.k == 0 ? 1 : p.gemm.k;  // without products no vector matters
  return {static_cast<const uint8_t*>(p.at.a) + a, static_cast<const uint8_t*>(p.at.b) + b, y, p.at.first_row + a / k,
          p.at.first_column + b / k};
}

// 16 bytes along the inner dimension of a row; what is outside of the matrix is 0.
__device__ __forceinline__ Words LoadAlong(const uint8_t* matrix, int64_t stride, int64_t row, int64_t rows, int64_t k,
                                           int64_t inner, bool words) {
  Words piece{};
  if (row >= rows || k >= inner) return piece;
  const uint8_t* const from = matrix + row * stride + k;
  if (words && k + 16 <= inner) return *reinterpret_cast<const Words*>(__builtin_assume_aligned(from, 16));
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    if (k + i < inner) piece.word[i / 4] |= static_cast<uint32_t>(from[i]) << (i % 4 * 8);
  }
  return piece;
}

// 4 rows of 4 columns of a matrix whose rows follow the inner dimension, as 4 columns of 4.
__device__ __forceinline__ Words LoadAcross(const uint8_t* matrix, int64_t stride, int64_t column, int64_t columns,
                                            int64_t k, int64_t inner, bool words) {
  Words rows{}, piece{};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (k + i >= inner || column >= columns) continue;
    const uint8_t* const from = matrix + (k + i) * stride + column;
    if (words && column + 4 <= columns) {
      rows.word[i] = *reinterpret_cast<const uint32_t*>(from);
      continue;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (column + j < columns) rows.word[i] |= static_cast<uint32_t>(from[j]) << (j * 8);
    }
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) piece.word[j] |= ((rows.word[i] >> (j * 8)) & 0xffu) << (i * 8);
  }
  return piece;
}

// What a thread brings of the next tiles of A and B.
struct Step {
  Words a[kPieces], b[kPieces];

  __device__ __forceinline__ void Load(const Call& p, const Matrices& at, int64_t row, int64_t column, int64_t k) {
    const IntGemm& g = p.gemm;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int piece = i * kThreads + static_cast<int>(threadIdx.x);
      const int line = piece / 4, inner = piece % 4 * 16;
      a[i] = LoadAlong(at.a, g.lda, row + line, g.m, k + inner, g.k, p.a_words);
      b[i] = g.transpose_b ? LoadAlong(at.b, g.ldb, column + line, g.n, k + inner, g.k, p.b_words)
                           : LoadAcross(at.b, g.ldb, column + piece % 16 * 4, g.n, k + piece / 16 * 4, g.k, p.b_words);
    }
  }

  __device__ __forceinline__ void Store(const Call& p, uint8_t* tile_a, uint8_t* tile_b) const {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int piece = i * kThreads + static_cast<int>(threadIdx.x);
      const int along = piece / 4 * kRowBytes + piece % 4 * 16;
      *reinterpret_cast<Words*>(__builtin_assume_aligned(tile_a + along, 16)) = a[i];
      if (p.gemm.transpose_b) {
        *reinterpret_cast<Words*>(__builtin_assume_aligned(tile_b + along, 16)) = b[i];
        continue;
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        *reinterpret_cast<uint32_t*>(tile_b + (piece % 16 * 4 + j) * kRowBytes + piece / 16 * 4) = b[i].word[j];
      }
    }
  }
};

// d += a * b. Devices before 8.0 have an eighth of the product in one instruction.
template <class A, class B>
__device__ __forceinline__ void Multiply(device::FragmentD<int32_t>& d, const device::FragmentA<A>& a,
                                         const device::FragmentB<B>& b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define CUDAEP_EIGHTH(type_a, type_b)                                                                  \
  asm("mma.sync.aligned.m8n8k16.row.col.s32." type_a "." type_b ".s32 {%0, %1}, {%2}, {%3}, {%0, %1};" \
      : "+r"(d.value[2 * i]), "+r"(d.value[2 * i + 1])                                                 \
      : "r"(a.word[i + 2 * k]), "r"(b.word[k]))
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      if constexpr (std::is_signed_v<A> && std::is_signed_v<B>) {
        CUDAEP_EIGHTH("s8", "s8");
      } else if constexpr (std::is_signed_v<A>) {
        CUDAEP_EIGHTH("s8", "u8");
      } else if constexpr (std::is_signed_v<B>) {
        CUDAEP_EIGHTH("u8", "s8");
      } else {
        CUDAEP_EIGHTH("u8", "u8");
      }
    }
  }
#undef CUDAEP_EIGHTH
#else
  device::Mma(d, a, b);
#endif
}

__device__ __forceinline__ uint32_t TileWord(const uint8_t* tile, int row, int byte) {
  return *reinterpret_cast<const uint32_t*>(tile + row * kRowBytes + byte);
}

// A warp's quarter: the products, and the sums of A's rows and B's columns where there are zero points.
struct Sums {
  device::FragmentD<int32_t> product[kRowTiles][kColumnTiles] = {};
  device::FragmentD<int32_t> row[kRowTiles] = {}, column[kColumnTiles] = {};

  template <class A, class B>
  __device__ __forceinline__ void Add(const uint8_t* tile_a, const uint8_t* tile_b, bool rows, bool columns) {
    constexpr uint32_t kOnes = 0x01010101u;
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4 * 4;
#pragma unroll
    for (int k = 0; k < kTile; k += device::kMmaDepth<A>) {
      device::FragmentA<A> a[kRowTiles];
      device::FragmentB<B> b[kColumnTiles];
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          a[i].word[w] = TileWord(tile_a, i * kMmaRows + g + w % 2 * 8, k + t + w / 2 * 16);
        }
        if (rows) Multiply<A, B>(row[i], a[i], {{kOnes, kOnes}});
      }
#pragma unroll
      for (int j = 0; j < kColumnTiles; ++j) {
#pragma unroll
        for (int w = 0; w < 2; ++w) b[j].word[w] = TileWord(tile_b, j * kMmaColumns + g, k + t + w * 16);
        if (columns) Multiply<A, B>(column[j], {{kOnes, kOnes, kOnes, kOnes}}, b[j]);
      }
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
        for (int j = 0; j < kColumnTiles; ++j) Multiply<A, B>(product[i][j], a[i], b[j]);
      }
    }
  }
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
  return line < vector.period ? line : line % vector.period;
}

// What a row or a column brings to its results.
struct Line {
  uint32_t zero = 0;
  float scale = 1, bias = 0;
  uint32_t int_bias = 0;

  __device__ __forceinline__ void LoadFrom(const Call& p, DataType type, const IntGemmVector& zeros,
                                           const IntGemmVector& scales, int64_t line, bool biased) {
    const IntGemm& g = p.gemm;
    zero = ZeroAt(type, zeros.data, PlaceIn(zeros, line));
    if (scales.data != nullptr) scale = FloatAt(g.scale_type, scales.data, PlaceIn(scales, line));
    if (!biased || p.at.bias.data == nullptr) return;
    const int64_t at = PlaceIn(p.at.bias, line);
    if (g.bias_type == DataType::kInt32) {
      int_bias = static_cast<const uint32_t*>(p.at.bias.data)[at];
    } else {
      bias = FloatAt(g.bias_type, p.at.bias.data, at);
    }
  }
};

// The lines of a warp's quarter that a lane has results in.
struct Lines {
  Line row[kRowTiles][2], column[kColumnTiles][2];

  __device__ __forceinline__ Lines(const Call& p, const Matrices& at, int64_t first_row, int64_t first_column) {
    const IntGemm& g = p.gemm;
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kRowTiles * 2; ++i) {
      const int64_t m = first_row + i / 2 * kMmaRows + device::MmaRow(lane, i % 2 * 2);
      if (m >= g.m) continue;
      row[i / 2][i % 2].LoadFrom(p, g.a_type, p.at.a_zero, p.at.a_scale, at.first_row + m, g.bias_of_rows);
    }
#pragma unroll
    for (int i = 0; i < kColumnTiles * 2; ++i) {
      const int64_t n = first_column + i / 2 * kMmaColumns + device::MmaColumn(lane, i % 2);
      if (n >= g.n) continue;
      column[i / 2][i % 2].LoadFrom(p, g.b_type, p.at.b_zero, p.at.b_scale, at.first_column + n, !g.bias_of_rows);
    }
  }
};

// Takes the sum of products at a place to its result.
__device__ __forceinline__ void StoreResult(const Call& p, int64_t to, const Line& row, const Line& column,
                                            uint32_t product, uint32_t row_sum, uint32_t column_sum) {
  const IntGemm& g = p.gemm;
  const uint32_t bias =
      p.at.biases != nullptr ? static_cast<uint32_t>(p.at.biases[to]) : row.int_bias + column.int_bias;
  const auto acc = static_cast<int32_t>(product - row.zero * column_sum - column.zero * row_sum +
                                        static_cast<uint32_t>(g.k) * row.zero * column.zero + bias);
  const float scale = g.alpha * row.scale * column.scale;
  switch (g.y_type) {
    case DataType::kInt32:
      static_cast<int32_t*>(p.at.y)[to] = acc;
      return;
    case DataType::kFloat:
      static_cast<float*>(p.at.y)[to] = static_cast<float>(acc) * scale + (row.bias + column.bias);
      return;
    case DataType::kFloat16:
      static_cast<Half*>(p.at.y)[to] = Store<Half>(static_cast<float>(acc) * scale + (row.bias + column.bias));
      return;
    default:
      break;
  }
  const float rounded = rintf(static_cast<float>(acc) * (scale / FloatAt(g.scale_type, p.at.y_scale, 0)));
  const float y = rounded + static_cast<float>(static_cast<int32_t>(ZeroAt(g.y_type, p.at.y_zero, 0)));
  if (g.y_type == DataType::kInt8) {
    static_cast<int8_t*>(p.at.y)[to] = static_cast<int8_t>(fminf(fmaxf(y, -128.0f), 127.0f));
  } else {
    static_cast<uint8_t*>(p.at.y)[to] = static_cast<uint8_t>(fminf(fmaxf(y, 0.0f), 255.0f));
  }
}

// A warp's quarter.
__device__ __forceinline__ void StoreSums(const Call& p, const Matrices& at, const Sums& sums, int64_t first_row,
                                          int64_t first_column) {
  const Lines lines(p, at, first_row, first_column);
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int j = 0; j < kColumnTiles; ++j) {
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        const int64_t m = first_row + i * kMmaRows + device::MmaRow(lane, v);
        const int64_t n = first_column + j * kMmaColumns + device::MmaColumn(lane, v);
        if (m >= p.gemm.m || n >= p.gemm.n) continue;
        StoreResult(p, at.y + m * p.gemm.ldc + n, lines.row[i][v / 2], lines.column[j][v % 2],
                    static_cast<uint32_t>(sums.product[i][j].value[v]), static_cast<uint32_t>(sums.row[i].value[v]),
                    static_cast<uint32_t>(sums.column[j].value[v]));
      }
    }
  }
}

template <class A, class B>
__global__ void __launch_bounds__(kThreads) IntGemmKernel(__grid_constant__ const Call p) {
  device::GridDependencyWait();
  alignas(16) __shared__ uint8_t tile_a[kTile * kRowBytes];
  alignas(16) __shared__ uint8_t tile_b[kTile * kRowBytes];
  const IntGemm& g = p.gemm;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_row = warp / 2 * kWarpTile, warp_column = warp % 2 * kWarpTile;
  const int64_t first_column = static_cast<int64_t>(blockIdx.x) * kTile;
  for (int64_t batch = blockIdx.z; batch < p.batches; batch += gridDim.z) {
    const Matrices at = MatricesOf(p, batch);
    for (int64_t first_row = static_cast<int64_t>(blockIdx.y) * kTile; first_row < g.m;
         first_row += static_cast<int64_t>(gridDim.y) * kTile) {
      Sums sums;
      Step next;
      next.Load(p, at, first_row, first_column, 0);
      for (int64_t k = 0; k < g.k; k += kTile) {
        next.Store(p, tile_a, tile_b);
        __syncthreads();
        if (k + kTile < g.k) next.Load(p, at, first_row, first_column, k + kTile);
        sums.Add<A, B>(tile_a + warp_row * kRowBytes, tile_b + warp_column * kRowBytes, p.at.b_zero.data != nullptr,
                       p.at.a_zero.data != nullptr);
        __syncthreads();
      }
      StoreSums(p, at, sums, first_row + warp_row, first_column + warp_column);
    }
  }
}

// Whether all rows of all matrices start at multiples of `bytes`.
bool Aligned(const void* data, int64_t stride, const IntGemm& gemm, int64_t IntGemmBatch::*batch, int64_t bytes) {
  bool aligned = IsAligned(data, static_cast<size_t>(bytes)) && stride % bytes == 0;
  for (const IntGemmBatch& dim : gemm.batch) aligned = aligned && (dim.size == 1 || dim.*batch % bytes == 0);
  return aligned;
}

}  // namespace

Status LaunchIntGemm(const IntGemm& gemm, const IntGemmPointers& at, device::Stream stream) {
  Call call{.gemm = gemm,
            .at = at,
            .batches = 1,
            .a_words = Aligned(at.a, gemm.lda, gemm, &IntGemmBatch::stride_a, 16),
            .b_words = Aligned(at.b, gemm.ldb, gemm, &IntGemmBatch::stride_b, gemm.transpose_b ? 16 : 4)};
  for (const IntGemmBatch& dim : gemm.batch) call.batches *= dim.size;
  if (gemm.m == 0 || gemm.n == 0 || call.batches == 0) return Status::Ok();
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(gemm.n, kTile));
  config.grid.y = static_cast<unsigned>(std::min(CeilDiv<int64_t>(gemm.m, kTile), kMostBlocks));
  config.grid.z = static_cast<unsigned>(std::min(call.batches, kMostBlocks));
  config.block.x = kThreads;
  config.programmatic = true;
  const bool a_signed = gemm.a_type == DataType::kInt8, b_signed = gemm.b_type == DataType::kInt8;
  auto* const kernel = a_signed ? (b_signed ? &IntGemmKernel<int8_t, int8_t> : &IntGemmKernel<int8_t, uint8_t>)
                                : (b_signed ? &IntGemmKernel<uint8_t, int8_t> : &IntGemmKernel<uint8_t, uint8_t>);
  return device::Launch(kernel, config, stream, call);
}

}  // namespace cudaep::kernels
