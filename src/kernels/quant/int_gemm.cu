#include <algorithm>

#include "core/checked_math.h"
#include "kernels/quant/int_gemm_results.cuh"

namespace cudaep::kernels {
namespace {

using namespace int_gemm;

constexpr int64_t kMostBlocks = 65535;  // of grid.y and grid.z

// The code is kept short: at small sizes a block runs each instruction once, and fetching it takes the longest.
template <class A, class B>
__global__ void __launch_bounds__(kThreads, 4) IntGemmKernel(__grid_constant__ const Call p) {
  device::GridDependencyWait();
  __shared__ Tiles tiles;
  const IntGemm& g = p.gemm;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_row = warp / 2 * kWarpTile, warp_column = warp % 2 * kWarpTile;
  const int64_t first_column = static_cast<int64_t>(blockIdx.x) * kTile;
#pragma unroll 1
  for (int64_t batch = blockIdx.z; batch < p.batches; batch += gridDim.z) {
    const Matrices at = MatricesOf(p, batch);
#pragma unroll 1
    for (int64_t first_row = static_cast<int64_t>(blockIdx.y) * kTile; first_row < g.m;
         first_row += static_cast<int64_t>(gridDim.y) * kTile) {
      Sums sums;
      Step next;
#pragma unroll 1
      for (int64_t k = 0;; k += kTile) {
        if (k < g.k) next.Load(p, at, first_row, first_column, k);
        if (k == 0) {
          LoadLines(p, at, first_row, first_column, tiles);
        } else {
          sums.Add<A, B>(tiles.codes.a + warp_row * kRowBytes, tiles.codes.b + warp_column * kRowBytes,
                         p.at.b_zero.data != nullptr && warp_column == 0, p.at.a_zero.data != nullptr && warp_row == 0);
        }
        __syncthreads();
        if (k >= g.k) break;
        next.Store(p, tiles.codes.a, tiles.codes.b);
        __syncthreads();
      }
      KeepSums(sums, warp_row, warp_column, tiles);
      __syncthreads();
      StoreTile(p, at, tiles, first_row, first_column);
      __syncthreads();
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
            .b_words = Aligned(at.b, gemm.ldb, gemm, &IntGemmBatch::stride_b, gemm.transpose_b ? 16 : 4),
            .y_words = Aligned(at.y, gemm.ldc, gemm, &IntGemmBatch::stride_c, kQuadOfSums) &&
                       IsAligned(at.y, kQuadOfSums * SizeOf(gemm.y_type))};
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
