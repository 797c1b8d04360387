// Group normalisation of slices that the registers of a cluster's blocks hold.
#pragma once

#include "kernels/common/trigger.cuh"
#include "kernels/norm/group_norm.cuh"

namespace cudaep::kernels {

// The grid: clusters of `in.blocks`, one for each slice. kHeld pixels for each thread, at most.
template <class T, int kPack, int kHeld, bool kLast>
__global__ void __launch_bounds__(kGroupThreads)
    GroupNormKernel(const T* x, T* y, const __grid_constant__ GroupNormInput in) {
  __shared__ PartMoments<float> parts[kMostSliceGroups][kGroupParts];
  __shared__ NormScale<float> of_group[kMostSliceGroups];
  MeanSquares* const entries = device::DynamicShared<MeanSquares>();
  const GroupNormPlace<kPack> place(in);
  const int64_t offset = place.Offset(in);
  const int64_t stride = static_cast<int64_t>(in.rows) * in.channels;
  const int warp = static_cast<int>(threadIdx.x / 32), warps = static_cast<int>(blockDim.x / 32);
  // Warps that share a group of the block.
  const int shares = in.slice_groups * 4 <= warps ? 4 : in.slice_groups * 2 <= warps ? 2 : 1;
  TriggerDependentsOfSmallGrid();
  device::GridDependencyWait();

  RawPack<T, kPack> raw[kHeld] = {};
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    if (j < place.pixels) raw[j] = LoadRaw<kPack>(x + offset + j * stride);
  }
  const AffinePacks<T, kPack> scales(in, kLast ? place.Channel(in) : 0);
  if (in.blocks > 1) device::ClusterMeeting();  // all blocks are there to be written to
  if (place.pixels > 0)
    LeaveMoments(in, place, ChannelMoments<T, kPack>::template Of<kHeld>(raw, place.pixels), entries);
  KeepPacked(raw);
  __syncthreads();
  for (int i = warp; i < in.slice_groups * shares; i += warps) {
    const int group = i / shares, share = i % shares;
    const PartMoments<float> own = GroupOfBlock(in, place, group, share, shares, entries);
    ShareParts(&parts[group][static_cast<int>(place.block) * shares + share], static_cast<unsigned>(in.blocks), own);
  }
  if (in.blocks > 1) {
    device::ClusterBarrier();
  } else {
    __syncthreads();
  }
  for (int group = warp; group < in.slice_groups; group += warps) {
    const NormScale<float> norm = MergeGroup(in, parts[group], in.blocks * shares);
    if (threadIdx.x % 32 == 0) of_group[group] = norm;
  }
  __syncthreads();

  if (place.pixels == 0) return;
  GroupAffine<T, kPack, kLast> affine(in, place, of_group, scales);
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    if (j >= place.pixels) break;
    const int pixel = place.first_pixel + place.row + j * in.rows;
    StoreWords<kPack>(y + offset + j * stride, affine(raw[j], pixel));
  }
}

}  // namespace cudaep::kernels
