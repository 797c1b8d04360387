// Normalisation of rows that the shared memory of a block, or of a cluster of blocks, can hold: each element is read
// once from memory and twice from there.
#pragma once

#include "kernels/norm/layer_norm_batch.cuh"

namespace cudaep::kernels {

// A row for each cluster, which ends with it: others take its place as memory serves them. The slots of a row go round
// the warps of its blocks, `slots` to each.
template <class T, int kPack>
__global__ void __launch_bounds__(kRingThreads, kRingBlocks)
    LayerNormRingKernel(const __grid_constant__ LayerNormInput<T, T> in, const LayerNormOutput<T> out, int slots) {
  using C = ComputeType<T>;
  using Raw = RawPack<T, kPack>;
  using Ring = CopyRing<Raw, kNormPacks, kSlotPacks>;
  __shared__ device::CopyBarrier barriers[kRingThreads / 32][kRingSlots];
  __shared__ PartMoments<C> part[kRingThreads / 32 * kNormCluster];
  const unsigned cluster = device::ClusterBlocks(), warps = blockDim.x / 32, warp = threadIdx.x / 32;
  const unsigned parts = warps * cluster, own_part = device::ClusterRank() * warps + warp;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  Ring ring(device::DynamicShared<Raw>() + static_cast<int>(warp) * slots * kSlotPacks, barriers[warp], slots);
  // The first pack of a slot, and how many it has in the row.
  const auto start_of = [&](int slot) {
    return (slot * static_cast<int>(parts) + static_cast<int>(own_part)) * kSlotPacks;
  };
  const auto packs_of = [&](int slot) {
    return device::Min(device::Max(in.row_packs - start_of(slot), 0), kSlotPacks);
  };

  device::GridDependencyWait();
  if (cluster > 1) device::ClusterMeeting();  // all of its blocks are there
  const int64_t row = blockIdx.x / cluster;
  const T* const x = in.x + row * in.elems;
  int part_packs = 0;
  for (int slot = 0; slot < slots; ++slot) {
    ring.Push(x + static_cast<int64_t>(start_of(slot)) * kPack, packs_of(slot));
    part_packs += packs_of(slot);
  }
  const C part_count = static_cast<C>(part_packs * kPack);
  const C inverse_part = C(1) / device::Max(part_count, C(1));
  const bool centred = in.centred();
  typename Ring::Cursor arriving, leaving;
  Raw raw[kNormPacks];

  Moments<C> moments;
#pragma unroll 1
  for (int slot = 0; slot < slots; ++slot) {
    ring.Wait(arriving);
    ring.Read(arriving, raw);
    ring.Advance(arriving);
    const int packs = packs_of(slot);
    C value[kNormPacks][kPack];
#pragma unroll
    for (int j = 0; j < kNormPacks; ++j) UnpackCompute<T, kPack>(raw[j], value[j]);
    if (packs == kSlotPacks) {
      moments.template Add<kNormPacks * kPack>(value[0], centred);
      continue;
    }
#pragma unroll
    for (int j = 0; j < kNormPacks; ++j) {
      if (j * 32 + lane < packs) moments.template Add<kPack>(value[j], centred);
    }
  }
  C mean, squares;
  MergeMoments<1>({moments.count}, {moments.mean}, {moments.squares}, inverse_part, 32, centred, mean, squares);
  ShareParts(&part[own_part], cluster, {part_count, mean, squares, C(0)});
  BlocksBarrier(cluster);
  MergeClusterParts(part, parts, in.inverse_elems, centred, mean, squares);
  const C inv_std = InverseOf<T>(in.statistic, squares, in.inverse_elems, in.epsilon);
  if (own_part == 0 && lane == 0) {
    WriteStatistic(in, out.mean, row, mean);
    WriteStatistic(in, out.inv_std, row, inv_std);
  }

  T* const y = static_cast<T*>(out.y) + row * in.elems;
  const AffineRows<T> affine(in, row);
  WithAffineForm(in, [&]<AffineForm kForm>() {
#pragma unroll 1
    for (int slot = 0; slot < slots; ++slot) {
      ring.Read(leaving, raw);
      ring.Advance(leaving);
      const int packs = packs_of(slot), start = start_of(slot) + lane;
#pragma unroll
      for (int j = 0; j < kNormPacks; ++j) {
        if (j * 32 + lane >= packs) continue;
        const int column = (start + j * 32) * kPack;
        C value[kPack];
        UnpackCompute<T, kPack>(raw[j], value);
        PackAffine<kPack, T> by;
        by.template Load<kForm>(in, affine, column);
        StoreWords<kPack>(y + column, by.Apply(value, mean, inv_std));
      }
    }
  });
}

}  // namespace cudaep::kernels
