// Normalisation of rows that the registers of a block can hold: each element is read once.
#pragma once

#include "kernels/common/moments.cuh"
#include "kernels/norm/layer_norm_input.cuh"

namespace cudaep::kernels {

// What a piece of a row leaves for the others.
template <class C>
struct alignas(4 * sizeof(C)) PartMoments {
  C count, mean, squares, unused;
};

// The moments of a row from those of its parts, of which there are a multiple of 4, empty ones among them.
template <class C>
__device__ __forceinline__ void MergeParts(const PartMoments<C>* part, unsigned parts, C inverse_elems, bool centred,
                                           C& mean, C& squares) {
  mean = 0;
  if (!centred) {
    const C base = part[0].mean;  // so that the mean of equal means is exact
    C sum = 0;
#pragma unroll 1
    for (unsigned i = 0; i < parts; i += 4) {
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) sum += part[i + k].count * (part[i + k].mean - base);
    }
    mean = base + sum * inverse_elems;
  }
  squares = 0;
#pragma unroll 1
  for (unsigned i = 0; i < parts; i += 4) {
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) {
      const PartMoments<C> p = part[i + k];
      squares += p.squares + p.count * (p.mean - mean) * (p.mean - mean);
    }
  }
}

// Threads of a multiprocessor that have their registers at once: 48 KB of x are on their way, and no register spills.
inline constexpr int kRowsThreadsAtOnce = 768;

// One row for each blockDim.x threads, and then the block ends: others take its place as memory serves them, so that
// multiprocessors which it serves late do less. A row is cut into pieces of a warp (or of its threads, where those are
// fewer), whose packs are neighbours.
template <class T, class V, int kPack, int kPacks, bool kSkip>
__global__ void __launch_bounds__(kRowsThreadsAtOnce)
    LayerNormRowsKernel(const __grid_constant__ LayerNormInput<T, V> in, const LayerNormOutput<T> out) {
  using C = ComputeType<T>;
  __shared__ PartMoments<C> part[kNormThreads / 32];
  const unsigned lanes = device::Min(blockDim.x, 32u), parts = blockDim.x > 32 ? blockDim.x / 32 : 1;
  const unsigned own_part = threadIdx.x / 32, lane = threadIdx.x & (lanes - 1);
  const int step = static_cast<int>(lanes), piece = static_cast<int>(own_part) * step * kPacks;
  const int first = piece + static_cast<int>(lane);  // pack of the thread; the next ones `step` apart
  const int left = in.row_packs - first;
  const auto has = [&](int j) { return j * step < left; };
  const auto column_of = [&](int j) { return (first + j * step) * kPack; };
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const bool active = row < in.rows;
  const bool whole = has(kPacks - 1), centred = in.centred();

  device::GridDependencyWait();
  PackAffine<kPack, V> by;
  C value[kPacks][kPack] = {};
  if (active) {
    const T* const x = in.x + row * in.elems + first * kPack;
    RawPack<T, kPack> raw[kPacks] = {}, more[kSkip ? kPacks : 1] = {};
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (has(j)) raw[j] = LoadRaw<kPack>(x + j * step * kPack);
    }
    if constexpr (kSkip) {
      const int64_t skip_row = row < in.skip_rows ? row : row % in.skip_rows;
      const T* const skip = in.skip + skip_row * in.elems + first * kPack;
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        if (has(j)) more[j] = LoadRaw<kPack>(skip + j * step * kPack);
      }
    }
    if constexpr (kPacks == 1) {  // a small problem waits once, for everything
      const AffineRows<V> affine(in, row);
      if (has(0)) WithAffineForm(in, [&]<AffineForm kForm>() { by.template Load<kForm>(in, affine, column_of(0)); });
    }
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      UnpackCompute<T, kPack>(raw[j], value[j]);
      if constexpr (kSkip) {
        C term[kPack];
        UnpackCompute<T, kPack>(more[j], term);
#pragma unroll
        for (int k = 0; k < kPack; ++k) value[j][k] += term[k];
        if (!has(j)) continue;
        if (in.bias != nullptr) {
          UnpackCompute<T, kPack>(LoadRaw<kPack>(in.bias + column_of(j)), term);
#pragma unroll
          for (int k = 0; k < kPack; ++k) value[j][k] += term[k];
        }
        if (out.sum == nullptr) continue;
        StoreWords<kPack>(out.sum + row * in.elems + column_of(j), PackCompute<T, kPack>(value[j]));
      }
    }
  }

  // Around the mean of the warp's piece, then of the row.
  const int part_packs = device::Min(device::Max(in.row_packs - piece, 0), step * kPacks);
  const C inverse_elems = C(1) / static_cast<C>(in.elems);
  C mean = 0, squares = 0;
  if (!centred) {
    C sum[kPacks] = {};
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
#pragma unroll
      for (int j = 0; j < kPacks; ++j) sum[j] += value[j][k];
    }
#pragma unroll
    for (int j = 0; j < kPacks; ++j) mean += sum[j];
    // Divided, not multiplied by a rounded reciprocal: the mean of equal 16-bit elements, whose sum is exact, is exact.
    mean = SumOfLanes(mean, lanes) / static_cast<C>(device::Max(part_packs * kPack, 1));
  }
  if (!whole) {  // what is beyond the row's end does not deviate
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
#pragma unroll
      for (int k = 0; k < kPack; ++k) value[j][k] = has(j) ? value[j][k] : mean;
    }
  }
  C pack_squares[kPacks] = {};
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) pack_squares[j] += (value[j][k] - mean) * (value[j][k] - mean);
  }
#pragma unroll
  for (int j = 0; j < kPacks; ++j) squares += pack_squares[j];
  squares = SumOfLanes(squares, lanes);
  if (parts > 1) {
    const unsigned rounded = (parts + 3) / 4 * 4;
    if (threadIdx.x % 32 == 0) part[own_part] = {static_cast<C>(part_packs * kPack), mean, squares, C(0)};
    if (threadIdx.x < rounded - parts) part[parts + threadIdx.x] = {};
    __syncthreads();
    MergeParts(part, rounded, inverse_elems, centred, mean, squares);
  }
  if (!active) return;
  const C inv_std = InverseOf<T>(in.statistic, squares, inverse_elems, static_cast<C>(in.epsilon));
  if (first == 0) {
    WriteStatistic(in, out.mean, row, mean);
    WriteStatistic(in, out.inv_std, row, inv_std);
  }
  V* const y = static_cast<V*>(out.y) + row * in.elems + first * kPack;
  if constexpr (kPacks == 1) {
    if (has(0)) StoreWords<kPack>(y, by.Apply(value[0], mean, inv_std));
  } else {
    const AffineRows<V> affine(in, row);
    WithAffineForm(in, [&]<AffineForm kForm>() {
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        if (!has(j)) continue;
        by.template Load<kForm>(in, affine, column_of(j));
        StoreWords<kPack>(y + j * step * kPack, by.Apply(value[j], mean, inv_std));
      }
    });
  }
}

}  // namespace cudaep::kernels
