#include <algorithm>
#include <bit>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "kernels/common/raw_pack.cuh"
#include "kernels/common/row_reduce.cuh"
#include "kernels/norm/gated_norm.h"

namespace cudaep::kernels {
namespace {

constexpr unsigned kThreads = 256;

template <class T, int N>
__device__ __forceinline__ void WritePack(const RawPack<T, N>& x, const RawPack<T, N>& gate, const T* scale,
                                          float factor, bool sigmoid, T* y) {
  float value[N], g[N], s[N];
  UnpackCompute<T, N>(x, value);
  UnpackCompute<T, N>(gate, g);
  UnpackCompute<T, N>(LoadRaw<N>(scale), s);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float one_more = 1.0f + std::exp(-g[i]);
    value[i] = value[i] * factor * s[i] * ((sigmoid ? 1.0f : g[i]) / one_more);
  }
  StoreWords<N>(y, PackCompute<T, N>(value));
}

// blockDim.x threads share a row, in packs of N; a thread keeps its first pack of it.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) GatedNormKernel(const T* x, const T* scale, const T* gate, T* y,
                                                            int64_t rows, int64_t columns, float epsilon, int sigmoid) {
  __shared__ float scratch[kMaxRowWarps];
  device::GridDependencyWait();
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  const int64_t first = int64_t{threadIdx.x} * N, step = int64_t{blockDim.x} * N;
  const bool in_row = row < rows && first < columns;
  const int64_t at = row * columns;
  RawPack<T, N> x_first = {}, gate_first = {};
  float sum = 0;
  const auto add = [&](const RawPack<T, N>& raw) {
    float value[N];
    UnpackCompute<T, N>(raw, value);
#pragma unroll
    for (float one : value) sum += one * one;
  };
  if (in_row) {
    x_first = LoadRaw<N>(x + at + first);
    gate_first = LoadRaw<N>(gate + at + first);
    add(x_first);
    for (int64_t column = first + step; column < columns; column += step) add(LoadRaw<N>(x + at + column));
  }
  sum = RowReduce(sum, AddOp(), scratch);
  if (!in_row) return;
  const float factor = 1.0f / std::sqrt(sum / static_cast<float>(columns) + epsilon);
  WritePack<T, N>(x_first, gate_first, scale + first, factor, sigmoid != 0, y + at + first);
  for (int64_t column = first + step; column < columns; column += step) {
    WritePack<T, N>(LoadRaw<N>(x + at + column), LoadRaw<N>(gate + at + column), scale + column, factor, sigmoid != 0,
                    y + at + column);
  }
}

template <class T, int N>
Status Launch(const GatedNorm& norm, device::Stream stream) {
  const int64_t packs = CeilDiv<int64_t>(norm.columns, N);
  device::LaunchConfig config;
  config.block.x = std::min(kThreads, std::bit_ceil(static_cast<unsigned>(std::min<int64_t>(packs, kThreads))));
  config.block.y = config.block.x <= 32 ? kThreads / config.block.x : 1;
  const int64_t blocks = CeilDiv<int64_t>(norm.rows, config.block.y);
  if (!FitsInt32(blocks)) return NotSupported(norm.rows, " rows, more than a launch has blocks for");
  config.grid.x = static_cast<unsigned>(blocks);
  config.programmatic = true;
  return device::Launch(GatedNormKernel<T, N>, config, stream, static_cast<const T*>(norm.x),
                        static_cast<const T*>(norm.scale), static_cast<const T*>(norm.gate), static_cast<T*>(norm.y),
                        norm.rows, norm.columns, norm.epsilon, norm.sigmoid ? 1 : 0);
}

}  // namespace

Status LaunchGatedNorm(const GatedNorm& norm, device::Stream stream) {
  if (norm.rows == 0 || norm.columns == 0) return Status::Ok();
  return VisitType<kFloatTypesNoDouble>(
      norm.type, NotSupported("gated norm of ", DataTypeName(norm.type)), [&]<class T>() {
        constexpr int kPack = PackElems(sizeof(T));
        const auto aligned = [](const void* pointer) { return IsAligned(pointer, kPackBytes); };
        const bool packs = norm.columns % kPack == 0 && aligned(norm.x) && aligned(norm.scale) && aligned(norm.gate) &&
                           aligned(norm.y);
        return packs ? Launch<T, kPack>(norm, stream) : Launch<T, 1>(norm, stream);
      });
}

}  // namespace cudaep::kernels
