#include <cmath>
#include <limits>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/launch.h"
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
  int64_t stride_a, stride_b, stride_c;
  int64_t tiles_m, tiles_n;
  double alpha, beta;
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
      value = Load(along_depth ? source[(first + i) * ld + depth + d] : source[(depth + d) * ld + first + i]);
    }
    tile[d * kPitch + i] = value;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    TiledGemmKernel(const T* a, const T* b, const T* bias, T* c, TiledGemmKernelArgs g) {
  using C = ComputeType<T>;
  device::GridDependencyWait();
  __shared__ C tile_a[kDepth * kPitch];
  __shared__ C tile_b[kDepth * kPitch];
  const int64_t tile = static_cast<int64_t>(blockIdx.x) % (g.tiles_m * g.tiles_n);
  const int64_t batch = static_cast<int64_t>(blockIdx.x) / (g.tiles_m * g.tiles_n);
  const int64_t row = tile / g.tiles_n * kTile, column = tile % g.tiles_n * kTile;
  a += batch * g.stride_a;
  b += batch * g.stride_b;
  c += batch * g.stride_c;
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
      const C previous = g.beta == 0 ? C{} : Load(c[y * g.ldc + x]);
      C value = Scale(sum[i][j], previous, g);
      if (bias != nullptr) value += Load(bias[x]);
      c[y * g.ldc + x] = Store<T>(value);
    }
  }
}

template <class T>
Status LaunchAs(const TiledGemmKernelArgs& args, int64_t blocks, const void* a, const void* b, const void* bias,
                void* c, device::Stream stream) {
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(blocks);
  config.block.x = kThreads;
  config.programmatic = true;
  return device::Launch(TiledGemmKernel<T>, config, stream, static_cast<const T*>(a), static_cast<const T*>(b),
                        static_cast<const T*>(bias), static_cast<T*>(c), args);
}

bool IsWhole(double value) { return std::trunc(value) == value && std::abs(value) < 9.0e15; }

}  // namespace

Status LaunchTiledGemm(const TiledGemm& gemm, const void* a, const void* b, const void* bias, void* c,
                       device::Stream stream) {
  if (gemm.m == 0 || gemm.n == 0 || gemm.batch == 0) return Status::Ok();
  TiledGemmKernelArgs args{};
  args.m = gemm.m, args.n = gemm.n, args.k = gemm.k;
  args.lda = gemm.lda, args.ldb = gemm.ldb, args.ldc = gemm.ldc;
  args.stride_a = gemm.stride_a, args.stride_b = gemm.stride_b, args.stride_c = gemm.stride_c;
  args.tiles_m = CeilDiv<int64_t>(gemm.m, kTile), args.tiles_n = CeilDiv<int64_t>(gemm.n, kTile);
  args.alpha = gemm.alpha, args.beta = gemm.beta;
  args.transpose_a = gemm.transpose_a, args.transpose_b = gemm.transpose_b;
  args.whole = IsWhole(gemm.alpha) && IsWhole(gemm.beta);
  args.is_signed = gemm.type == DataType::kInt32 || gemm.type == DataType::kInt64;
  int64_t blocks = 0;
  if (!CheckedMultiply(args.tiles_m, args.tiles_n, &blocks) || !CheckedMultiply(blocks, gemm.batch, &blocks) ||
      !FitsInt32(blocks)) {
    return NotSupported("matrix product ", gemm.m, 'x', gemm.n, 'x', gemm.k, " batch ", gemm.batch,
                        " needs too many thread blocks");
  }
  switch (gemm.type) {
    case DataType::kFloat:
      return LaunchAs<float>(args, blocks, a, b, bias, c, stream);
    case DataType::kFloat16:
      return LaunchAs<Half>(args, blocks, a, b, bias, c, stream);
    case DataType::kBFloat16:
      return LaunchAs<BFloat16>(args, blocks, a, b, bias, c, stream);
    case DataType::kDouble:
      return LaunchAs<double>(args, blocks, a, b, bias, c, stream);
    case DataType::kInt32:
    case DataType::kUint32:  // products and sums have the same bits
      return LaunchAs<uint32_t>(args, blocks, a, b, bias, c, stream);
    case DataType::kInt64:
    case DataType::kUint64:
      return LaunchAs<uint64_t>(args, blocks, a, b, bias, c, stream);
    default:
      return NotSupported("matrix product of element type ", DataTypeName(gemm.type));
  }
}

}  // namespace cudaep::kernels
