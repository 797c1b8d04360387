// Tiles of the operands of products of 8-bit integers, and their products.
#pragma once

#include "device/tensor_core.h"
#include "kernels/quant/int_gemm.h"

namespace cudaep::kernels::int_gemm {

constexpr int kTile = 64;      // rows, columns and bytes of the inner dimension of a block's step
constexpr int kRowBytes = 80;  // of a tile in shared memory: the words that a warp reads are in 32 banks
constexpr int kThreads = 128;  // four warps, each with a quarter of the tile
constexpr int kWarpTile = 32;
constexpr int kMmaRows = 16, kMmaColumns = 8;
constexpr int kRowTiles = kWarpTile / kMmaRows, kColumnTiles = kWarpTile / kMmaColumns;
constexpr int kPieces = kTile * kTile / 16 / kThreads;  // pieces of 16 bytes that a thread brings of a tile

struct Words {
  uint32_t word[4];
};

struct Call {
  IntGemm gemm;
  IntGemmPointers at;
  int64_t batches;
  bool a_words, b_words;  // 16 bytes of A, and of B 16 (transposed) or 4, may be loaded at once
  bool y_words;           // 4 elements of y may be stored at once
  uint8_t unused[5] = {};
};

// A matrix of the batch.
struct Matrices {
  const uint8_t *a, *b;
  int64_t a_elems, b_elems, y;  // in front of it
};

__device__ __forceinline__ Matrices MatricesOf(const Call& p, int64_t index) {
  int64_t a = 0, b = 0, y = 0;
#pragma unroll 1
  for (int d = kIntGemmBatchRank - 1; d >= 0 && index > 0; --d) {
    const IntGemmBatch& batch = p.gemm.batch[d];
    if (batch.size == 1) continue;
    int64_t at = 0;
    if (((index | batch.size) >> 32) == 0) {  // a division of 64 bits takes as long as many loads
      const auto rest = static_cast<uint32_t>(index), size = static_cast<uint32_t>(batch.size);
      at = rest % size, index = rest / size;
    } else {
      at = index % batch.size, index /= batch.size;
    }
    a += at * batch.stride_a;
    b += at * batch.stride_b;
    y += at * batch.stride_c;
  }
  return {static_cast<const uint8_t*>(p.at.a) + a, static_cast<const uint8_t*>(p.at.b) + b, a, b, y};
}

// Up to four bytes that lie side by side.
__device__ __forceinline__ uint32_t LoadBytes(const uint8_t* from, int64_t count) {
  uint32_t word = 0;
#pragma unroll 1
  for (int i = 0; i < 4 && i < count; ++i) word |= static_cast<uint32_t>(from[i]) << (i * 8);
  return word;
}

// 16 bytes along the inner dimension of a row; what is outside of the matrix is 0.
__device__ __forceinline__ Words LoadAlong(const uint8_t* matrix, int64_t stride, int64_t row, int64_t rows, int64_t k,
                                           int64_t inner, bool words) {
  Words piece{};
  if (row >= rows || k >= inner) return piece;
  const uint8_t* const from = matrix + row * stride + k;
  if (words && k + 16 <= inner) return *reinterpret_cast<const Words*>(__builtin_assume_aligned(from, 16));
#pragma unroll
  for (int i = 0; i < 4; ++i) piece.word[i] = LoadBytes(from + 4 * i, inner - k - 4 * i);
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
    rows.word[i] =
        words && column + 4 <= columns ? *reinterpret_cast<const uint32_t*>(from) : LoadBytes(from, columns - column);
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

}  // namespace cudaep::kernels::int_gemm
