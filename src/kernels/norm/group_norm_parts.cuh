// Group normalisation of slices of any length, in two launches.
#pragma once

#include "kernels/norm/group_norm.cuh"

namespace cudaep::kernels {

// Packs that a thread has on the way. Of the blocks a multiprocessor has three.
inline constexpr int kGroupBatch = 8;

// The grid: `in.blocks` for each slice. parts: [slices of all images][groups][blocks].
template <class T, int kPack>
__global__ void __launch_bounds__(kGroupThreads, 3)
    GroupMomentsKernel(const T* x, PartMoments<float>* parts, const __grid_constant__ GroupNormInput in) {
  MeanSquares* const entries = device::DynamicShared<MeanSquares>();
  const GroupNormPlace<kPack> place(in);
  const T* from = x + place.Offset(in);
  const int64_t stride = static_cast<int64_t>(in.rows) * in.channels;
  device::TriggerDependents();
  device::GridDependencyWait();

  ChannelMoments<T, kPack> moments;
  for (int done = 0; done < place.pixels; done += kGroupBatch, from += kGroupBatch * stride) {
    const int count = device::Min(place.pixels - done, kGroupBatch);
    RawPack<T, kPack> raw[kGroupBatch] = {};
#pragma unroll
    for (int j = 0; j < kGroupBatch; ++j) {
      if (j < count) raw[j] = LoadRaw<kPack>(from + j * stride);
    }
    moments.Merge(ChannelMoments<T, kPack>::template Of<kGroupBatch>(raw, count));
  }
  LeaveMoments(in, place, moments, entries);
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x / 32), warps = static_cast<int>(blockDim.x / 32);
  const int64_t first = static_cast<int64_t>(place.all) * in.slice_groups;
  for (int group = warp; group < in.slice_groups; group += warps) {
    const PartMoments<float> own = GroupOfBlock(in, place, group, 0, 1, entries);
    if (threadIdx.x % 32 == 0) parts[(first + group) * in.blocks + place.block] = own;
  }
}

// The same grid, from its end: what was read last is still in the cache.
template <class T, int kPack, bool kLast>
__global__ void __launch_bounds__(kGroupThreads, 3)
    GroupApplyKernel(const T* x, T* y, const PartMoments<float>* parts, const __grid_constant__ GroupNormInput in) {
  __shared__ NormScale<float> of_group[kMostSliceGroups];
  const GroupNormPlace<kPack> place(in, gridDim.x - 1 - blockIdx.x);
  const int64_t stride = static_cast<int64_t>(in.rows) * in.channels;
  int64_t at = place.Offset(in);
  device::GridDependencyWait();

  RawPack<T, kPack> raw[kGroupBatch] = {};
  const auto load = [&](int done) {
#pragma unroll
    for (int j = 0; j < kGroupBatch; ++j) {
      if (done + j < place.pixels) raw[j] = LoadRaw<kPack>(x + at + j * stride);
    }
  };
  load(0);
  const AffinePacks<T, kPack> scales(in, kLast ? place.Channel(in) : 0);
  const int warp = static_cast<int>(threadIdx.x / 32), warps = static_cast<int>(blockDim.x / 32);
  const int64_t first = static_cast<int64_t>(place.all) * in.slice_groups;
  for (int group = warp; group < in.slice_groups; group += warps) {
    const NormScale<float> norm = MergeGroup(in, parts + (first + group) * in.blocks, in.blocks);
    if (threadIdx.x % 32 == 0) of_group[group] = norm;
  }
  __syncthreads();

  if (place.pixels == 0) return;
  GroupAffine<T, kPack, kLast> affine(in, place, of_group, scales);
  for (int done = 0; done < place.pixels; done += kGroupBatch, at += kGroupBatch * stride) {
    if (done > 0) load(done);
#pragma unroll
    for (int j = 0; j < kGroupBatch; ++j) {
      if (done + j >= place.pixels) break;
      const int pixel = place.first_pixel + place.row + (done + j) * in.rows;
      StoreWords<kPack>(y + at + j * stride, affine(raw[j], pixel));
    }
  }
}

}  // namespace cudaep::kernels
