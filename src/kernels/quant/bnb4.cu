#include <algorithm>
#include <bit>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/launch.h"
#include "kernels/quant/bnb4.h"

namespace cudaep::kernels {
namespace {

constexpr unsigned kThreads = 256;

__device__ __forceinline__ float TableEntry(Bnb4Table table, unsigned code) {
  constexpr float kNf4[16] = {-1.0f,
                              -0.6961928009986877f,
                              -0.5250730514526367f,
                              -0.39491748809814453f,
                              -0.28444138169288635f,
                              -0.18477343022823334f,
                              -0.09105003625154495f,
                              0.0f,
                              0.07958029955625534f,
                              0.16093020141124725f,
                              0.24611230194568634f,
                              0.33791524171829224f,
                              0.44070982933044434f,
                              0.5626170039176941f,
                              0.7229568362236023f,
                              1.0f};
  constexpr float kFp4[8] = {0.0f, 1.0f / 192, 2.0f / 3, 1.0f, 1.0f / 3, 0.5f, 1.0f / 6, 0.25f};
  if (table == Bnb4Table::kNf4) return kNf4[code];
  return code < 8 ? kFp4[code] : -kFp4[code - 8];
}

__device__ __forceinline__ void FillTable(Bnb4Table table, float* shared) {
  if (threadIdx.x < 16) shared[threadIdx.x] = TableEntry(table, threadIdx.x);
  __syncthreads();
}

struct Arguments {
  Bnb4Weights weights;
  int log_block = 0, unused = 0;  // whole words, which the simulated device takes for addresses
};

__device__ __forceinline__ unsigned CodeAt(const uint8_t* codes, int64_t element) {
  return element % 2 == 0 ? codes[element / 2] >> 4 : codes[element / 2] & 15u;
}

template <class T>
__global__ void __launch_bounds__(kThreads) DequantizeBnb4Kernel(__grid_constant__ const Arguments p, T* matrix) {
  __shared__ float table[16];
  device::GridDependencyWait();
  FillTable(p.weights.table, table);
  const auto* const scales = static_cast<const T*>(p.weights.scales);
  const int64_t elems = p.weights.n * p.weights.k;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elems; i += int64_t{gridDim.x} * kThreads) {
    matrix[i] = Store<T>(table[CodeAt(p.weights.codes, i)] * Load(scales[i >> p.log_block]));
  }
}

// A warp has a row of the weights, that is a column of the result; a lane takes 8 neighbouring elements, which share a
// scale. With `words` these are a word of codes.
template <class T, int kRows>
__global__ void __launch_bounds__(kThreads)
    MatMulBnb4Kernel(__grid_constant__ const Arguments p, const T* a, int64_t m, int words, T* y) {
  __shared__ float table[16];
  device::GridDependencyWait();
  FillTable(p.weights.table, table);
  const auto* const scales = static_cast<const T*>(p.weights.scales);
  const int64_t column = int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32, k = p.weights.k;
  if (column >= p.weights.n) return;
  float sum[kRows] = {};
  for (int64_t at = threadIdx.x % 32 * 8; at < k; at += 32 * 8) {
    const int64_t element = column * k + at;
    const int count = static_cast<int>(device::Min<int64_t>(8, k - at));
    const uint32_t word = words != 0 ? *reinterpret_cast<const uint32_t*>(p.weights.codes + element / 2) : 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i >= count) break;
      const unsigned code =
          words != 0 ? word >> (8 * (i / 2) + (i % 2 == 0 ? 4 : 0)) & 15u : CodeAt(p.weights.codes, element + i);
      const float weight = table[code] * Load(scales[(element + i) >> p.log_block]);
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        if (row < m) sum[row] += weight * Load(a[row * k + at + i]);
      }
    }
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    const float all = device::WarpReduce(sum[row], [](float x, float z) { return x + z; });
    if (threadIdx.x % 32 == 0 && row < m) y[row * p.weights.n + column] = Store<T>(all);
  }
}

Arguments ArgumentsOf(const Bnb4Weights& weights) {
  return {.weights = weights, .log_block = std::countr_zero(static_cast<uint64_t>(weights.block))};
}

}  // namespace

Status LaunchDequantizeBnb4(const Bnb4Weights& weights, void* matrix, device::Stream stream) {
  if (weights.n * weights.k == 0) return Status::Ok();
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(std::min<int64_t>(CeilDiv<int64_t>(weights.n * weights.k, kThreads), 1 << 20));
  config.block.x = kThreads;
  config.programmatic = true;
  return VisitType<kFloatTypesNoDouble>(
      weights.type, NotSupported("weights for ", DataTypeName(weights.type)), [&]<class T>() {
        return device::Launch(DequantizeBnb4Kernel<T>, config, stream, ArgumentsOf(weights), static_cast<T*>(matrix));
      });
}

Status LaunchMatMulBnb4(const Bnb4Weights& weights, const void* a, int64_t m, void* y, device::Stream stream) {
  if (m > kMostBnb4Rows) return InvalidArgument(m, " rows, more than ", kMostBnb4Rows);
  if (m * weights.n == 0) return Status::Ok();
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(weights.n, kThreads / 32));
  config.block.x = kThreads;
  config.programmatic = true;
  const int words = weights.k % 8 == 0 && reinterpret_cast<uintptr_t>(weights.codes) % 4 == 0 ? 1 : 0;
  return VisitType<kFloatTypesNoDouble>(
      weights.type, NotSupported("weights for ", DataTypeName(weights.type)), [&]<class T>() {
        const auto kernel = m == 1 ? MatMulBnb4Kernel<T, 1> : MatMulBnb4Kernel<T, kMostBnb4Rows>;
        return device::Launch(kernel, config, stream, ArgumentsOf(weights), static_cast<const T*>(a), m, words,
                              static_cast<T*>(y));
      });
}

}  // namespace cudaep::kernels
