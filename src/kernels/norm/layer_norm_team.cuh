// Normalisation of rows that share a row of scale and shift and are too long for the registers of a block, by teams:
// the blocks of a cluster, each with its part of every row and that part of scale and shift, which it reads once for
// all rows. Half of a block's warps sum rows as they arrive in shared memory, the other half write those whose moments
// are there: what the blocks wait for each other passes while rows before and behind are worked on.
#pragma once

#include "kernels/norm/layer_norm_input.cuh"
#include "kernels/norm/layer_norm_moments.cuh"

namespace cudaep::kernels {

// Warps w of both halves have the packs from (block * kTeamWarps + w) * piece on, `piece` of them. Shared
// memory holds `depth` rows; a slot is free, and filled again, when the row has been written.
template <class T, int kPack>
__global__ void __launch_bounds__(kTeamThreads, 1)
    LayerNormTeamKernel(const __grid_constant__ LayerNormInput<T, T> in, const LayerNormOutput<T> out, int piece,
                        int depth) {
  using C = ComputeType<T>;
  using Raw = RawPack<T, kPack>;
  // A block may have summed `depth` rows more than another has written, whose moments are not read yet.
  constexpr int kStages = 2 * kTeamDepth;
  __shared__ device::CopyBarrier full[kTeamWarps][kTeamDepth], summed[kStages];
  __shared__ PartMoments<C> part_of[kStages][kTeamWarps * kTeamCluster];
  static_assert(sizeof(full) + sizeof(summed) + sizeof(part_of) <= (size_t{34} << 10), "what a launch grants unasked");
  const unsigned cluster = device::ClusterBlocks(), parts = kTeamWarps * cluster;
  const unsigned warp = threadIdx.x / 32 % kTeamWarps, own_part = device::ClusterRank() * kTeamWarps + warp;
  const bool sums = threadIdx.x < kTeamThreads / 2;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int start = static_cast<int>(own_part) * piece, stages = 2 * depth;
  const unsigned part_bytes = parts * sizeof(PartMoments<C>);
  const int packs = device::Min(device::Max(in.row_packs - start, 0), piece);
  const auto has = [&](int j) { return j * 32 + lane < packs; };
  Raw* const slots = device::DynamicShared<Raw>() + static_cast<int>(warp) * depth * piece;
  if (sums && lane == 0) {
    for (int i = 0; i < depth; ++i) full[warp][i].Init(1);
    for (int i = static_cast<int>(warp); i < stages; i += kTeamWarps) {
      summed[i].Init(1);
      summed[i].ArriveExpecting(part_bytes);
    }
    device::FenceCopyBarriers();
  }
  Raw scale[kTeamPacks] = {}, beta[kTeamPacks] = {};
  const auto load_affine = [&] {
#pragma unroll
    for (int j = 0; j < kTeamPacks; ++j) {
      if (sums || !has(j)) continue;
      const int column = (start + j * 32 + lane) * kPack;
      scale[j] = LoadRaw<kPack>(in.scale.data + column);
      if (in.beta.data != nullptr) beta[j] = LoadRaw<kPack>(in.beta.data + column);
    }
  };
  if (in.constant_affine != 0) load_affine();
  BlocksBarrier(cluster);  // barriers are there, in all blocks
  device::GridDependencyWait();

  const bool centred = in.centred();
  const int64_t stride = gridDim.x / cluster;
  int64_t row = blockIdx.x / cluster;
  int slot = 0, stage = 0;
  unsigned slot_parity = 0, stage_parity = 0;
  const auto next = [&] {
    if (++slot == depth) slot = 0, slot_parity ^= 1;
    if (++stage == stages) stage = 0, stage_parity ^= 1;
  };
  if (sums) {
#pragma unroll 1
    for (; row < in.rows; row += stride, next()) {
      full[warp][slot].Wait(slot_parity);
      const Raw* const from = slots + slot * piece + lane;
      C value[kTeamPacks][kPack] = {};
#pragma unroll
      for (int j = 0; j < kTeamPacks; ++j) {
        if (has(j)) UnpackCompute<T, kPack>(from[j * 32], value[j]);
      }
      C mean, squares;
      PieceMoments<kTeamPacks>(value, has, packs, 32, centred, mean, squares);
      if (lane >= static_cast<int>(cluster)) continue;
      device::StoreToClusterAsync(&part_of[stage][own_part], &summed[stage], static_cast<unsigned>(lane),
                                  PartMoments<C>{static_cast<C>(packs * kPack), mean, squares, C(0)});
    }
  } else {
    const device::CachePolicy policy = device::EvictFirst();  // each is read once
    int64_t next_row = row;
    const auto push = [&](int to) {
      if (next_row < in.rows && lane == 0) {
        const T* const from = in.x + next_row * in.elems + static_cast<int64_t>(start) * kPack;
        const unsigned bytes = static_cast<unsigned>(packs) * 16;
        full[warp][to].ArriveExpecting(bytes);
        if (bytes != 0) device::BulkCopy(slots + to * piece, from, bytes, &full[warp][to], policy);
      }
      next_row += stride;
    };
    for (int i = 0; i < depth; ++i) push(i);
    if (in.constant_affine == 0) load_affine();
#pragma unroll 1
    for (; row < in.rows; row += stride, next()) {
      summed[stage].Wait(stage_parity);
      C mean, squares;
      MergeClusterParts(part_of[stage], parts, in.inverse_elems, centred, mean, squares);
      if (threadIdx.x == kTeamThreads / 2) summed[stage].ArriveExpecting(part_bytes);  // of the row `stages` behind
      const C inv_std = InverseOf<T>(in.statistic, squares, in.inverse_elems, in.epsilon);
      if (own_part == 0 && lane == 0) {
        WriteStatistic(in, out.mean, row, mean);
        WriteStatistic(in, out.inv_std, row, inv_std);
      }
      full[warp][slot].Wait(slot_parity);  // over, but it makes what was copied visible here too
      const Raw* const from = slots + slot * piece + lane;
      T* const y = static_cast<T*>(out.y) + row * in.elems + static_cast<int64_t>(start + lane) * kPack;
      KeepPacked(scale);
      KeepPacked(beta);
#pragma unroll
      for (int j = 0; j < kTeamPacks; ++j) {
        if (!has(j)) continue;
        C value[kPack];
        UnpackCompute<T, kPack>(from[j * 32], value);
        PackAffine<kPack, T> by;
        UnpackCompute<T, kPack>(scale[j], by.factor);
        UnpackCompute<T, kPack>(beta[j], by.term);
        StoreWords<kPack>(y + j * 32 * kPack, by.Apply(value, mean, inv_std));
      }
      __syncwarp();
      push(slot);
    }
  }
  if (cluster > 1) device::ClusterBarrier();  // nobody stores into a block that has ended
}

}  // namespace cudaep::kernels
