// A warp's own ring of slots in shared memory, which copies from device memory fill while the warp works: what it
// pushes it reads in the same order. Devices from 9.0 on copy a slot at a time and those from 8.0 on a pack for each
// lane, both without waiting; others, and the simulated device, copy as they are told.
#pragma once

#include "device/launch.h"
#include "kernels/common/raw_pack.cuh"

namespace cudaep::kernels {

// A slot has kPacks packs of 16 bytes for each lane, 32 packs apart; from one to the next it is kStride packs.
template <class Raw, int kPacks, int kStride>
class CopyRing {
 public:
  static_assert(sizeof(Raw) == 16);
  struct Cursor {
    int slot = 0;
    unsigned parity = 0;
  };

  // `slots`: the warp's part of the first; `barriers`: the warp's, one a slot.
  __device__ __forceinline__ CopyRing(Raw* slots, uint64_t* barriers, int count)
      : slots_(slots), barriers_(barriers), count_(count) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if (Lane() == 0) {
      for (int i = 0; i < count; ++i) {
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(Address(barriers + i)), "n"(kArrivals) : "memory");
      }
#if __CUDA_ARCH__ >= 900
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      // Keeping what is read makes the cache write back early what was written (measured on an H200: 2 to 4% of a
      // softmax), and keeps what is read again.
      asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy_));
#endif
    }
    __syncwarp();
#endif
  }

  // Fills the next slot with `packs` packs, no more than it has; none or less is fine. Every lane calls it, after all
  // of them have read what the slot held.
  template <class T>
  __device__ __forceinline__ void Push(const T* from, int packs) {
    Raw* const to = slots_ + next_ * kStride;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    __syncwarp();
    if (Lane() == 0) {
      const unsigned barrier = Address(barriers_ + next_), bytes = static_cast<unsigned>(device::Max(packs, 0)) * 16;
      asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
      if (bytes != 0) {
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], "
            "%4;" ::"r"(Address(to)),
            "l"(from), "r"(bytes), "r"(barrier), "l"(policy_)
            : "memory");
      }
    }
#else
    constexpr int kElems = sizeof(Raw) / sizeof(T);
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      const int pack = j * 32 + Lane();
      if (pack >= packs) break;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(Address(to + pack)), "l"(from + pack * kElems)
                   : "memory");
#else
      to[pack] = LoadRaw<kElems>(from + pack * kElems);
#endif
    }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(Address(barriers_ + next_)) : "memory");
#endif
#endif
    if (++next_ == count_) next_ = 0;
  }

  __device__ __forceinline__ void Advance(Cursor& cursor) const {
    if (++cursor.slot < count_) return;
    cursor = {0, cursor.parity ^ 1};
  }

  // Returns when the slot is full.
  __device__ __forceinline__ void Wait([[maybe_unused]] const Cursor& cursor) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const unsigned barrier = Address(barriers_ + cursor.slot);
    unsigned full;
    do {
#if __CUDA_ARCH__ >= 900
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
#else
      asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
#endif
                   : "=r"(full)
                   : "r"(barrier), "r"(cursor.parity)
                   : "memory");
    } while (full == 0);
#endif
  }
  // What the slot holds for the lane; anything where there was nothing to copy.
  __device__ __forceinline__ void Read(const Cursor& cursor, Raw (&raw)[kPacks]) const {
    const Raw* const from = slots_ + cursor.slot * kStride + Lane();
#pragma unroll
    for (int j = 0; j < kPacks; ++j) raw[j] = from[j * 32];
  }

 private:
#if defined(__CUDA_ARCH__)
  static constexpr int kArrivals = __CUDA_ARCH__ >= 900 ? 1 : 32;
  static __device__ __forceinline__ unsigned Address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
  }
#endif
  static __device__ __forceinline__ int Lane() { return static_cast<int>(threadIdx.x % 32); }

  Raw* slots_;
  [[maybe_unused]] uint64_t* barriers_;
  int count_, next_ = 0;
  [[maybe_unused]] uint64_t policy_ = 0;
};

}  // namespace cudaep::kernels
