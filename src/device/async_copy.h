// Copies from global to shared memory that run beside the kernel, the barriers that say when they have arrived, and
// prefetches: one PTX instruction each.
//
// On the simulated device a copy is made when somebody waits for it, and never otherwise; until then its destination
// holds NaN patterns. Misaligned copies, barriers that were not initialised and bulk copies that a block leaves behind
// are errors there.
//
// Devices: before 8.0 CopyAsync copies at once. Barriers exist from 8.0 on, bulk copies and the bytes that a barrier
// counts from 9.0 on; kernels ask kHasCopyBarriers and kHasBulkCopies.
#pragma once

#include "device/launch.h"

namespace cudaep::device {

inline constexpr bool kHasCopyBarriers = kTargetArch >= 800;
inline constexpr bool kHasBulkCopies = kTargetArch >= 900;

namespace detail {

__device__ __forceinline__ unsigned SharedAddress([[maybe_unused]] const void* shared) {
#if defined(__CUDA_ARCH__)
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
#else
  return 0;
#endif
}

}  // namespace detail

// ---- Copies of a thread: cp.async -------------------------------------------------------------------------------

// Copies kBytes, 4, 8 or 16 of them; both sides are aligned to as many. 16 bytes pass the L1 cache by.
template <int kBytes>
__device__ __forceinline__ void CopyAsync(void* shared, const void* global) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
#if defined(CUDAEP_SIMULATED_DEVICE)
  sim::BlockExecutor::Get().CopyAsync(shared, global, kBytes, kBytes);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(detail::SharedAddress(shared)), "l"(global)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(detail::SharedAddress(shared)), "l"(global),
                 "n"(kBytes)
                 : "memory");
  }
#else
  struct alignas(kBytes) Words {
    uint32_t word[kBytes / 4];
  };
  *static_cast<Words*>(shared) = *static_cast<const Words*>(global);
#endif
}

// The same; of the kBytes only the first `valid_bytes` (0 to kBytes) are read, the rest become zero.
template <int kBytes>
__device__ __forceinline__ void CopyAsync(void* shared, const void* global, int valid_bytes) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
#if defined(CUDAEP_SIMULATED_DEVICE)
  sim::BlockExecutor::Get().CopyAsync(shared, global, kBytes, static_cast<unsigned>(valid_bytes));
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(detail::SharedAddress(shared)), "l"(global),
                 "r"(valid_bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(detail::SharedAddress(shared)), "l"(global),
                 "n"(kBytes), "r"(valid_bytes)
                 : "memory");
  }
#else
  auto* const to = static_cast<unsigned char*>(shared);
  const auto* const from = static_cast<const unsigned char*>(global);
#pragma unroll
  for (int i = 0; i < kBytes; ++i) to[i] = i < valid_bytes ? from[i] : static_cast<unsigned char>(0);
#endif
}

// Closes the group of the copies that the calling thread asked for since the last one; a group may be empty.
__device__ __forceinline__ void CommitCopies() {
#if defined(CUDAEP_SIMULATED_DEVICE)
  sim::BlockExecutor::Get().CommitCopies();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Returns when of the calling thread's groups all but the last kPending have arrived. Other threads see them after a
// barrier of the block or warp.
template <int kPending>
__device__ __forceinline__ void WaitForCopies() {
#if defined(CUDAEP_SIMULATED_DEVICE)
  sim::BlockExecutor::Get().WaitForCopies(kPending);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

// ---- Barriers: mbarrier -----------------------------------------------------------------------------------------

// In shared memory. It goes from one phase to the next, with parity 0, 1, 0, ..., when as many arrivals have come as it
// was initialised for and all bytes that they announced have been copied.
struct CopyBarrier {
  uint64_t state;

  // By one thread, before FenceCopyBarriers and a barrier of those that use it.
  __device__ __forceinline__ void Init([[maybe_unused]] unsigned arrivals) {
#if defined(CUDAEP_SIMULATED_DEVICE)
    sim::BlockExecutor::Get().InitBarrier(&state, arrivals);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(detail::SharedAddress(this)), "r"(arrivals) : "memory");
#endif
  }

  __device__ __forceinline__ void Arrive() {
#if defined(CUDAEP_SIMULATED_DEVICE)
    sim::BlockExecutor::Get().ArriveAtBarrier(&state, 0);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("{ .reg .b64 token; mbarrier.arrive.shared.b64 token, [%0]; }" ::"r"(detail::SharedAddress(this))
                 : "memory");
#endif
  }

  // An arrival that lets the phase wait for `bytes` of bulk copies too. 9.0 and later.
  __device__ __forceinline__ void ArriveExpecting([[maybe_unused]] unsigned bytes) {
#if defined(CUDAEP_SIMULATED_DEVICE)
    sim::BlockExecutor::Get().ArriveAtBarrier(&state, bytes);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(detail::SharedAddress(this)), "r"(bytes)
                 : "memory");
#endif
  }

  // An arrival, of those that Init counted, when all that the thread gave to CopyAsync so far has been copied.
  __device__ __forceinline__ void ArriveAfterCopies() {
#if defined(CUDAEP_SIMULATED_DEVICE)
    sim::BlockExecutor::Get().ArriveAfterCopies(&state);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(detail::SharedAddress(this)) : "memory");
#endif
  }

  // Returns when the phase of this parity is over, the one before the current phase counting as over.
  __device__ __forceinline__ void Wait([[maybe_unused]] unsigned parity) {
#if defined(CUDAEP_SIMULATED_DEVICE)
    sim::BlockExecutor::Get().WaitAtBarrier(&state, parity);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const unsigned barrier = detail::SharedAddress(this);
    unsigned over;
    do {
#if __CUDA_ARCH__ >= 900
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
#else
      asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
#endif
                   : "=r"(over)
                   : "r"(barrier), "r"(parity)
                   : "memory");
    } while (over == 0);
#endif
  }
};

// Barriers side by side in shared memory, for loops: where they lie is worked out once.
class CopyBarriers {
 public:
  __device__ __forceinline__ explicit CopyBarriers(CopyBarrier* first)
      : first_(first), address_(detail::SharedAddress(first)) {}

  __device__ __forceinline__ void Arrive(int index) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(AddressOf(index)) : "memory");
#else
    first_[index].Arrive();
#endif
  }
  __device__ __forceinline__ void Wait(int index, unsigned parity) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile(
        "{ .reg .pred over; again: mbarrier.try_wait.parity.shared.b64 over, [%0], %1; @!over bra again; }" ::"r"(
            AddressOf(index)),
        "r"(parity)
        : "memory");
#else
    first_[index].Wait(parity);
#endif
  }

 private:
  __device__ __forceinline__ unsigned AddressOf(int index) const {
    return address_ + static_cast<unsigned>(index) * static_cast<unsigned>(sizeof(CopyBarrier));
  }

  [[maybe_unused]] CopyBarrier* first_;
  [[maybe_unused]] unsigned address_;
};

// Makes barriers that the calling thread initialised known to the copies of others; a barrier of the threads follows.
__device__ __forceinline__ void FenceCopyBarriers() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// ---- Bulk copies: cp.async.bulk, 9.0 and later ------------------------------------------------------------------

// How the L2 cache treats what a copy reads.
struct CachePolicy {
  uint64_t bits = 0;
};
// Kept longer than other lines.
__device__ __forceinline__ CachePolicy EvictLast() {
  CachePolicy policy;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy.bits));
#endif
  return policy;
}
// Gone before other lines.
__device__ __forceinline__ CachePolicy EvictFirst() {
  CachePolicy policy;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy.bits));
#endif
  return policy;
}

// Copies `bytes`, whole 16 and at least as many, both sides aligned to 16; they count at `barrier`, where an arrival
// announced them (before or after this call, but in the same phase). One thread asks for all of them.
__device__ __forceinline__ void BulkCopy([[maybe_unused]] void* shared, [[maybe_unused]] const void* global,
                                         [[maybe_unused]] unsigned bytes, [[maybe_unused]] CopyBarrier* barrier) {
#if defined(CUDAEP_SIMULATED_DEVICE)
  sim::BlockExecutor::Get().BulkCopy(shared, global, bytes, &barrier->state);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   detail::SharedAddress(shared)),
               "l"(global), "r"(bytes), "r"(detail::SharedAddress(barrier))
               : "memory");
#endif
}
__device__ __forceinline__ void BulkCopy([[maybe_unused]] void* shared, [[maybe_unused]] const void* global,
                                         [[maybe_unused]] unsigned bytes, [[maybe_unused]] CopyBarrier* barrier,
                                         [[maybe_unused]] CachePolicy policy) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], "
      "%4;" ::"r"(detail::SharedAddress(shared)),
      "l"(global), "r"(bytes), "r"(detail::SharedAddress(barrier)), "l"(policy.bits)
      : "memory");
#else
  BulkCopy(shared, global, bytes, barrier);
#endif
}

// ---- Prefetches -------------------------------------------------------------------------------------------------

// Takes the line of 128 bytes around `global` to the L2 cache. It reads nothing a kernel could see, so it may come
// before GridDependencyWait.
__device__ __forceinline__ void PrefetchL2([[maybe_unused]] const void* global) {
#if defined(__CUDA_ARCH__)
  asm volatile("prefetch.global.L2 [%0];" ::"l"(global));
#endif
}
// The same of `bytes`, whole 16, from an address aligned to 16; one thread asks for all of them.
__device__ __forceinline__ void PrefetchL2([[maybe_unused]] const void* global, [[maybe_unused]] unsigned bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(global), "r"(bytes) : "memory");
#elif defined(__CUDA_ARCH__)
  for (unsigned at = 0; at < bytes; at += 128) PrefetchL2(static_cast<const unsigned char*>(global) + at);
#endif
}

}  // namespace cudaep::device
