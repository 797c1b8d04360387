// Normalisation of 16-bit rows that share a row of scale and shift, by the batch: all rows of a block are on their way
// to shared memory when the first is reduced, and scale and shift stay in registers, packed. The block ends with its
// batch; others take its place as memory serves them, so that multiprocessors which it serves late do less.
#pragma once

#include "kernels/common/copy_ring.cuh"
#include "kernels/norm/layer_norm_input.cuh"
#include "kernels/norm/layer_norm_moments.cuh"

namespace cudaep::kernels {

inline constexpr int kSlotPacks = 32 * kNormPacks;  // of a warp's slot

// Threads (blockDim.x, 0) and on take the first `batch` rows, (blockDim.x, 1) and on the next; a row has a slot of each
// of its warps. `kCentred`: root mean square, without a shift.
template <class T, int kPack, bool kSkip, bool kCentred>
__global__ void __launch_bounds__(BatchThreadsAtOnce(kSkip))
    LayerNormBatchKernel(const __grid_constant__ LayerNormInput<T, T> in, const LayerNormOutput<T> out, int batch) {
  using C = ComputeType<T>;
  using Raw = RawPack<T, kPack>;
  using Ring = CopyRing<Raw, kNormPacks, kSlotPacks>;
  constexpr int kTensors = kSkip ? 2 : 1;
  constexpr RowStatistic kStatistic = kCentred ? RowStatistic::kRms : RowStatistic::kVariance;
  __shared__ device::CopyBarrier barriers[kNormThreads / 32][kTensors * kNormBatch];
  __shared__ PartMoments<C> part_of[2][kNormThreads / 32];
  const unsigned warp = (threadIdx.y * blockDim.x + threadIdx.x) / 32, own_part = threadIdx.x / 32;
  const unsigned parts = blockDim.x / 32, rounded = (parts + 3) / 4 * 4;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int piece = static_cast<int>(own_part) * kSlotPacks, packs = device::Min(in.row_packs - piece, kSlotPacks);
  const auto has = [&](int j) { return j * 32 + lane < packs; };
  Ring ring(device::DynamicShared<Raw>() + static_cast<int>(warp) * batch * kTensors * kSlotPacks, barriers[warp],
            batch * kTensors);
  const int64_t begin = (static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y) * batch;
  const int rows = static_cast<int>(device::Min<int64_t>(in.rows - begin, batch));

  const int column = (piece + lane) * kPack;
  const auto load_row = [&](const T* from, Raw(&to)[kNormPacks]) {
#pragma unroll
    for (int j = 0; j < kNormPacks; ++j) {
      if (from != nullptr && has(j)) to[j] = LoadRaw<kPack>(from + column + j * 32 * kPack);
    }
  };
  Raw scale[kNormPacks] = {}, beta[kCentred ? 1 : kNormPacks] = {}, bias[kSkip ? kNormPacks : 1] = {};
  const auto load_affine = [&] {
    load_row(in.scale.data, scale);
    if constexpr (!kCentred) load_row(in.beta.data, beta);
    if constexpr (kSkip) load_row(in.bias, bias);
  };
  if (in.constant_affine != 0) load_affine();
  device::GridDependencyWait();
  for (int i = 0; i < rows; ++i) {
    const int64_t row = begin + i;
    ring.Push(in.x + row * in.elems + piece * kPack, packs);
    if constexpr (kSkip) {
      const int64_t skip_row = row < in.skip_rows ? row : row % in.skip_rows;
      ring.Push(in.skip + skip_row * in.elems + piece * kPack, packs);
    }
  }
  if (in.constant_affine == 0) load_affine();
  if (threadIdx.x < 2 * (rounded - parts)) part_of[threadIdx.x % 2][parts + threadIdx.x / 2] = {};  // empty parts

  int64_t at = begin * in.elems + column;
  typename Ring::Cursor cursor;
#pragma unroll 1
  for (int i = 0; i < rows; ++i, at += in.elems) {
    Raw raw[kNormPacks];
    C value[kNormPacks][kPack];
    const auto take = [&] {
      ring.Wait(cursor);
      ring.Read(cursor, raw);
      ring.Advance(cursor);
    };
    take();
#pragma unroll
    for (int j = 0; j < kNormPacks; ++j) UnpackCompute<T, kPack>(raw[j], value[j]);
    if constexpr (kSkip) {
      take();
      KeepPacked(bias);
#pragma unroll
      for (int j = 0; j < kNormPacks; ++j) {
        C term[kPack];
        UnpackCompute<T, kPack>(raw[j], term);
#pragma unroll
        for (int k = 0; k < kPack; ++k) value[j][k] += term[k];
        if (in.bias != nullptr) {
          UnpackCompute<T, kPack>(bias[j], term);
#pragma unroll
          for (int k = 0; k < kPack; ++k) value[j][k] += term[k];
        }
        if (out.sum == nullptr || !has(j)) continue;
        StoreWords<kPack>(out.sum + at + j * 32 * kPack, PackCompute<T, kPack>(value[j]));
      }
    }

    C mean, squares;
    PieceMoments<kNormPacks>(value, has, packs, 32, kCentred, mean, squares);
    if (parts > 1) {
      PartMoments<C>* const part = part_of[i % 2];
      if (lane == 0) part[own_part] = {static_cast<C>(packs * kPack), mean, squares, C(0)};
      __syncthreads();
      MergeParts(part, rounded, in.inverse_elems, kCentred, mean, squares);
    }
    const C inv_std = InverseOf<T>(kStatistic, squares, in.inverse_elems, in.epsilon);
    if (column == 0) {
      WriteStatistic(in, out.mean, begin + i, mean);
      WriteStatistic(in, out.inv_std, begin + i, inv_std);
    }
    T* const y = static_cast<T*>(out.y) + at;
    KeepPacked(scale);
    KeepPacked(beta);
#pragma unroll
    for (int j = 0; j < kNormPacks; ++j) {
      C factor[kPack], term[kPack] = {};
      UnpackCompute<T, kPack>(scale[j], factor);
      if constexpr (!kCentred) UnpackCompute<T, kPack>(beta[j], term);
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        const C normalised = (kCentred ? value[j][k] : value[j][k] - mean) * inv_std;
        term[k] = kCentred ? normalised * factor[k] : normalised * factor[k] + term[k];
      }
      if (has(j)) StoreWords<kPack>(y + j * 32 * kPack, PackCompute<T, kPack>(term));
    }
  }
}

}  // namespace cudaep::kernels
