// A warp's own ring of slots in shared memory, which copies from device memory fill while the warp works: what it
// pushes it reads in the same order. Devices from 9.0 on copy a slot at a time and those from 8.0 on a pack for each
// lane, both without waiting; others copy as they are told.
#pragma once

#include "device/async_copy.h"
#include "kernels/common/raw_pack.cuh"

namespace cudaep::kernels {

// A slot has kPacks packs of 16 bytes for each lane, 32 packs apart; from one to the next it is kStride packs.
template <class Raw, int kPacks, int kStride, bool kBulk = device::kHasBulkCopies>
class CopyRing {
 public:
  static_assert(sizeof(Raw) == 16);
  struct Cursor {
    int slot = 0;
    unsigned parity = 0;
  };

  // `slots`: the warp's part of the first; `barriers`: the warp's, one a slot.
  __device__ __forceinline__ CopyRing(Raw* slots, device::CopyBarrier* barriers, int count)
      : slots_(slots), barriers_(barriers), count_(count) {
    if constexpr (device::kHasCopyBarriers) {
      if (Lane() == 0) {
        for (int i = 0; i < count; ++i) barriers[i].Init(kBulk ? 1 : 32);
        device::FenceCopyBarriers();
        // Keeping what is read makes the cache write back early what was written (measured on an H200: 2 to 4% of a
        // softmax), and keeps what is read again.
        if constexpr (kBulk) policy_ = device::EvictLast();
      }
      __syncwarp();
    }
  }

  // Fills the next slot with `packs` packs, no more than it has; none or less is fine. Every lane calls it, after all
  // of them have read what the slot held.
  template <class T>
  __device__ __forceinline__ void Push(const T* from, int packs) {
    Raw* const to = slots_ + next_ * kStride;
    device::CopyBarrier& barrier = barriers_[next_];
    if constexpr (kBulk) {
      __syncwarp();
      if (Lane() == 0) {
        const unsigned bytes = static_cast<unsigned>(device::Max(packs, 0)) * 16;
        barrier.ArriveExpecting(bytes);
        if (bytes != 0) device::BulkCopy(to, from, bytes, &barrier, policy_);
      }
    } else {
      constexpr int kElems = sizeof(Raw) / sizeof(T);
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        const int pack = j * 32 + Lane();
        if (pack >= packs) break;
        device::CopyAsync<16>(to + pack, from + pack * kElems);
      }
      if constexpr (device::kHasCopyBarriers) barrier.ArriveAfterCopies();
    }
    if (++next_ == count_) next_ = 0;
  }

  __device__ __forceinline__ void Advance(Cursor& cursor) const {
    if (++cursor.slot < count_) return;
    cursor = {0, cursor.parity ^ 1};
  }

  // Returns when the slot is full.
  __device__ __forceinline__ void Wait(const Cursor& cursor) const {
    if constexpr (device::kHasCopyBarriers) barriers_[cursor.slot].Wait(cursor.parity);
  }
  // What the slot holds for the lane; anything where there was nothing to copy.
  __device__ __forceinline__ void Read(const Cursor& cursor, Raw (&raw)[kPacks]) const {
    const Raw* const from = slots_ + cursor.slot * kStride + Lane();
#pragma unroll
    for (int j = 0; j < kPacks; ++j) raw[j] = from[j * 32];
  }

 private:
  static __device__ __forceinline__ int Lane() { return static_cast<int>(threadIdx.x % 32); }

  Raw* slots_;
  device::CopyBarrier* barriers_;
  int count_, next_ = 0;
  [[maybe_unused]] device::CachePolicy policy_;
};

}  // namespace cudaep::kernels
