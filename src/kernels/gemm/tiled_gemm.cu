#include <cmath>
#include <limits>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/launch.h"
#include "kernels/epilogue/activate.cuh"
#include "kernels/gemm/tiled_gemm.h"

namespace cudaep::kernels {
namespace {

constexpr int kTile = 64;   // rows and columns of C a block computes
constexpr int kDepth = 16;  // inner elements staged at a time
constexpr int kThreads = 256;
constexpr int kPerThread = 4;               // rows and columns of C a thread computes
constexpr int kLanes = kTile / kPerThread;  // threads along each side of the tile
constexpr int kLoads = kTile * kDepth / kThreads;
constexpr int kPitch = kTile + 4;  // keeps transposed stores off one bank

struct TiledGemmKernelArgs {
  int64_t m, n, k;
  int64_t lda, ldb, ldc;
  TiledGemmBatch batch[kTiledGemmBatchRank];
  int64_t tiles_m, tiles_n;
  double alpha, beta;
  Activation activation;
  ActivationParameters parameters;
  bool transpose_a, transpose_b;
  bool whole;      // alpha and beta are whole numbers
  bool is_signed;  // how an integer is read when they are not
};

template <class C>
__device__ __forceinline__ double ToDouble(C value, bool is_signed) {
  return is_signed ? static_cast<double>(static_cast<std::make_signed_t<C>>(value)) : static_cast<double>(value);
}

template <class C>
__device__ __forceinline__ C Scale(C product, C previous, const TiledGemmKernelArgs& g) {
  if constexpr (std::is_integral_v<C>) {
    if (!g.whole) {
      const double value = g.alpha * ToDouble(product, g.is_signed) + g.beta * ToDouble(previous, g.is_signed);
      return value < 0 ? static_cast<C>(static_cast<int64_t>(value)) : static_cast<C>(value);
    }
    return static_cast<C>(static_cast<int64_t>(g.alpha)) * product +
           static_cast<C>(static_cast<int64_t>(g.beta)) * previous;
  } else {
    return static_cast<C>(g.alpha) * product + static_cast<C>(g.beta) * previous;
  }
}

// Stages kTile x kDepth elements of op(A) or op(B) at (first, depth); what lies outside counts as 0.
// `along_depth`: neighbours in memory differ in depth, not in row.
template <class T, class C>
__device__ __forceinline__ void StageTile(const T* source, int64_t ld, int64_t first, int64_t count, int64_t depth,
                                          int64_t depth_count, bool along_depth, C* tile) {
#pragma unroll
  for (int load = 0; load < kLoads; ++load) {
    const int index = static_cast<int>(threadIdx.x) + load * kThreads;
    const int i = along_depth ? index / kDepth : index % kTile;
    const int d = along_depth ? index % kDepth : index / kTile;
    C value{};
    if (first + i < count && depth + d < depth_count) {
      value = static_cast<C>(
          Load(along_depth ? source[(first + i) * ld + depth + d] : source[(depth + d) * ld + first + i]));
    }
    tile[d * kPitch + i] = value;
  }
}

// `T` is the type of A and B, `R` of the rest.
template <class T, class R>
__global__ void __launch_bounds__(kThreads) TiledGemmKernel(const T* a, const T* b, const R* bias, const R* residual,
                                                            R* c, const __grid_constant__ TiledGemmKernelArgs g) {
  using C = ComputeType<R>;
  device::GridDependencyWait();
  __shared__ C tile_a[kDepth * kPitch];
  __shared__ C tile_b[kDepth * kPitch];
  const int64_t tile = static_cast<int64_t>(blockIdx.x) % (g.tiles_m * g.tiles_n);
  const int64_t batch = static_cast<int64_t>(blockIdx.x) / (g.tiles_m * g.tiles_n);
  const int64_t row = tile / g.tiles_n * kTile, column = tile % g.tiles_n * kTile;
  int64_t rest = batch, offset_c = 0;
#pragma unroll
  for (const TiledGemmBatch& dim : g.batch) {
    const int64_t index = rest % dim.size;
    rest /= dim.size;
    a += index * dim.stride_a;
    b += index * dim.stride_b;
    offset_c += index * dim.stride_c;
  }
  const int lane_row = static_cast<int>(threadIdx.x) / kLanes, lane_column = static_cast<int>(threadIdx.x) % kLanes;

  C sum[kPerThread][kPerThread] = {};
  for (int64_t depth = 0; depth < g.k; depth += kDepth) {
    StageTile<T, C>(a, g.lda, row, g.m, depth, g.k, !g.transpose_a, tile_a);
    StageTile<T, C>(b, g.ldb, column, g.n, depth, g.k, g.transpose_b, tile_b);
    __syncthreads();
    for (int d = 0; d < kDepth; ++d) {
      C left[kPerThread], right[kPerThread];
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
        left[i] = tile_a[d * kPitch + lane_row + i * kLanes];
        right[i] = tile_b[d * kPitch + lane_column + i * kLanes];
      }
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
        for (int j = 0; j < kPerThread; ++j) sum[i][j] += left[i] * right[j];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int64_t y = row + lane_row + i * kLanes;
    if (y >= g.m) continue;
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const int64_t x = column + lane_column + j * kLanes;
      if (x >= g.n) continue;
      const int64_t at = offset_c + y * g.ldc + x;
      C value = Scale(sum[i][j], g.beta == 0 ? C{} : Load(residual[at]), g);
      if (bias != nullptr) value += Load(bias[x]);
      if constexpr (std::is_floating_point_v<C>) value = Activate(g.activation, g.parameters, value);
      c[at] = Store<R>(value);
    }
  }
}

template <class T, class R = T>
Status LaunchAs(const TiledGemmKernelArgs& args, int64_t blocks, const TiledGemmPointers& at, device::Stream stream) {
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(blocks);
  config.block.x = kThreads;
  config.programmatic = true;
  return device::Launch(TiledGemmKernel<T, R>, config, stream, static_cast<const T*>(at.a), static_cast<const T*>(at.b),
                        static_cast<const R*>(at.bias), static_cast<const R*>(at.residual), static_cast<R*>(at.c),
                        args);
}

bool IsWhole(double value) { return std::trunc(value) == value && std::abs(value) < 9.0e15; }

}  // namespace

Status LaunchTiledGemm(const TiledGemm& gemm, const TiledGemmPointers& pointers, device::Stream stream) {
  TiledGemmPointers at = pointers;
  if (!gemm.epilogue.bias) at.bias = nullptr;
  if (!gemm.epilogue.residual()) at.residual = nullptr;
  TiledGemmKernelArgs args{};
  args.m = gemm.m, args.n = gemm.n, args.k = gemm.k;
  args.lda = gemm.lda, args.ldb = gemm.ldb, args.ldc = gemm.ldc;
  args.tiles_m = CeilDiv<int64_t>(gemm.m, kTile), args.tiles_n = CeilDiv<int64_t>(gemm.n, kTile);
  args.alpha = gemm.epilogue.alpha, args.beta = gemm.epilogue.beta;
  args.activation = gemm.epilogue.activation;
  args.parameters = gemm.epilogue.parameters;
  args.transpose_a = gemm.transpose_a, args.transpose_b = gemm.transpose_b;
  args.whole = IsWhole(args.alpha) && IsWhole(args.beta);
  args.is_signed = gemm.type != DataType::kUint32 && gemm.type != DataType::kUint64;
  int64_t blocks = 0;
  bool fits = CheckedMultiply(args.tiles_m, args.tiles_n, &blocks);
  for (int i = 0; i < kTiledGemmBatchRank; ++i) {
    args.batch[i] = gemm.batch[i];
    fits = fits && CheckedMultiply(blocks, gemm.batch[i].size, &blocks);
  }
  if (blocks == 0) return Status::Ok();
  if (!fits || !FitsInt32(blocks)) {
    return NotSupported("matrix product ", gemm.m, 'x', gemm.n, 'x', gemm.k, " needs too many thread blocks");
  }
  switch (gemm.type) {
    case DataType::kFloat:
      return LaunchAs<float>(args, blocks, at, stream);
    case DataType::kFloat16:
      return LaunchAs<Half>(args, blocks, at, stream);
    case DataType::kBFloat16:
      return LaunchAs<BFloat16>(args, blocks, at, stream);
    case DataType::kDouble:
      return LaunchAs<double>(args, blocks, at, stream);
    case DataType::kInt8:
      return LaunchAs<int8_t, int32_t>(args, blocks, at, stream);
    case DataType::kInt32:
    case DataType::kUint32:  // products and sums have the same bits
      return LaunchAs<uint32_t>(args, blocks, at, stream);
    case DataType::kInt64:
    case DataType::kUint64:
      return LaunchAs<uint64_t>(args, blocks, at, stream);
    default:
      return NotSupported("matrix product of element type ", DataTypeName(gemm.type));
  }
}

}  // namespace cudaep::kernels
