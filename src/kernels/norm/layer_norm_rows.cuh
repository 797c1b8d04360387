// Normalisation of rows that the registers of a block can hold: each element is read once.
#pragma once

#include "kernels/common/trigger.cuh"
#include "kernels/norm/layer_norm_input.cuh"
#include "kernels/norm/layer_norm_moments.cuh"

namespace cudaep::kernels {

// Threads of a multiprocessor that have their registers at once: 48 KB of x are on their way, and no register spills.
inline constexpr int kRowsThreadsAtOnce = 768;

// One row for each blockDim.x threads, and then the block ends: others take its place as memory serves them, so that
// multiprocessors which it serves late do less. A row is cut into pieces of a warp (or of its threads, where those are
// fewer), whose packs are neighbours.
//
// `kShared`: rows of whole warps and one pack a thread, which share a row of scale and one of shift: what a small
// problem waits for is instructions, and these are a third fewer.
template <class T, class V, int kPack, int kPacks, bool kSkip, bool kShared>
__global__ void __launch_bounds__(kRowsThreadsAtOnce)
    LayerNormRowsKernel(const __grid_constant__ LayerNormInput<T, V> in, const LayerNormOutput<T> out) {
  using C = ComputeType<T>;
  __shared__ PartMoments<C> part[kNormThreads / 32];
  const unsigned lanes = kShared ? 32u : device::Min(blockDim.x, 32u), parts = blockDim.x > 32 ? blockDim.x / 32 : 1;
  const unsigned own_part = threadIdx.x / 32, lane = threadIdx.x & (lanes - 1);
  const int step = static_cast<int>(lanes), piece = static_cast<int>(own_part) * step * kPacks;
  const int first = piece + static_cast<int>(lane);  // pack of the thread; the next ones `step` apart
  const int left = in.row_packs - first;
  const auto has = [&](int j) { return j * step < left; };
  const auto column_of = [&](int j) { return (first + j * step) * kPack; };
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const bool active = row < in.rows;
  const bool centred = in.centred();
  const T* const x = in.x + row * in.elems + first * kPack;

  TriggerDependentsOfOneRound(kRowsThreadsAtOnce);
  PackAffine<kPack, V> by;
  RawPack<V, kPack> scale = {}, beta = {};  // of kShared, as they lie in memory: nothing waits for them before the row
  const auto load_shared = [&] {
    if (!active || !has(0)) return;
    scale = LoadRaw<kPack>(in.scale.data + column_of(0));
    if (in.beta.data != nullptr) beta = LoadRaw<kPack>(in.beta.data + column_of(0));
  };
  if constexpr (kShared) {
    if (in.constant_affine != 0) load_shared();
  }
  device::GridDependencyWait();
  C value[kPacks][kPack] = {};
  if (active) {
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
      if constexpr (kShared) {
        if (in.constant_affine == 0) load_shared();
      } else if (has(0)) {
        const AffineRows<V> affine(in, row);
        WithAffineForm(in, [&]<AffineForm kForm>() { by.template Load<kForm>(in, affine, column_of(0)); });
      }
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
  C mean, squares;
  PieceMoments<kPacks>(value, has, part_packs, lanes, centred, mean, squares);
  if (parts > 1) {
    const unsigned rounded = (parts + 3) / 4 * 4;
    if (threadIdx.x % 32 == 0) part[own_part] = {static_cast<C>(part_packs * kPack), mean, squares, C(0)};
    if (threadIdx.x < rounded - parts) part[parts + threadIdx.x] = {};
    __syncthreads();
    MergeParts(part, rounded, in.inverse_elems, centred, mean, squares);
  }
  if (!active) return;
  const C inv_std = InverseOf<T>(in.statistic, squares, in.inverse_elems, in.epsilon);
  if (first == 0) {
    WriteStatistic(in, out.mean, row, mean);
    WriteStatistic(in, out.inv_std, row, inv_std);
  }
  V* const y = static_cast<V*>(out.y) + row * in.elems + first * kPack;
  if constexpr (kPacks == 1) {
    if constexpr (kShared) {
      UnpackCompute<V, kPack>(scale, by.factor);
      UnpackCompute<V, kPack>(beta, by.term);
    }
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
