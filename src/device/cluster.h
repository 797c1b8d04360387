// Blocks of one cluster (LaunchConfig::cluster): who is who, stores into each other's shared memory, barriers.
//
// Clusters exist on devices from 9.0 on. Elsewhere, and on the simulated device, which runs blocks one by one, a kernel
// sees clusters of one block; planners choose no more there (DeviceInfo::major and simulated).
#pragma once

#include "device/async_copy.h"

namespace cudaep::device {

// Blocks of the calling thread's cluster, and the number of its own among them.
__device__ __forceinline__ unsigned ClusterBlocks() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  unsigned blocks;
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(blocks));
  return blocks;
#else
  return 1;
#endif
}
__device__ __forceinline__ unsigned ClusterRank() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
#else
  return 0;
#endif
}

// *shared = value, 16 bytes aligned to as many, in the shared memory of block `rank` of the cluster. Every block has
// passed a ClusterMeeting or a ClusterBarrier before the first store, and none ends before the last one has been
// followed by a ClusterBarrier.
// `shared` is this block's address.
template <class T>
__device__ __forceinline__ void StoreToCluster(T* shared, [[maybe_unused]] unsigned rank, const T& value) {
  static_assert(sizeof(T) == 16);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint32_t word[4];
  memcpy(word, &value, sizeof(value));
  asm volatile(
      "{ .reg .u32 there; mapa.shared::cluster.u32 there, %0, %1; st.shared::cluster.v4.b32 [there], {%2, %3, %4, %5}; "
      "}" ::"r"(detail::SharedAddress(shared)),
      "r"(rank), "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3])
      : "memory");
#else
  *shared = value;
#endif
}

// The same without waiting: the 16 bytes count at `barrier` of that block like those of a bulk copy. Who has waited
// there sees them. `barrier` is this block's address too. In launches of clusters alone: in others it is an illegal
// instruction.
template <class T>
__device__ __forceinline__ void StoreToClusterAsync(T* shared, [[maybe_unused]] CopyBarrier* barrier,
                                                    [[maybe_unused]] unsigned rank, const T& value) {
  static_assert(sizeof(T) == 16);
#if defined(CUDAEP_SIMULATED_DEVICE)
  sim::BlockExecutor::Get().BulkStore(shared, &value, &barrier->state);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint32_t word[4];
  memcpy(word, &value, sizeof(value));
  asm volatile(
      "{ .reg .u32 there, counted; mapa.shared::cluster.u32 there, %0, %2; mapa.shared::cluster.u32 counted, %1, %2; "
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [there], {%3, %4, %5, %6}, [counted]; }" ::"r"(
          detail::SharedAddress(shared)),
      "r"(detail::SharedAddress(barrier)), "r"(rank), "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3])
      : "memory");
#else
  *shared = value;
#endif
}

// 16 bytes of the shared memory of block `rank` of the cluster, aligned to as many. `shared` is this block's address of
// them; a ClusterBarrier stands between the stores and the loads, and between the loads and the end of that block.
template <class T>
__device__ __forceinline__ T LoadFromCluster(const void* shared, [[maybe_unused]] unsigned rank) {
  static_assert(sizeof(T) == 16);
  T value;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint32_t word[4];
  asm volatile(
      "{ .reg .u32 there; mapa.shared::cluster.u32 there, %4, %5; ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, [there]; "
      "}"
      : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
      : "r"(detail::SharedAddress(shared)), "r"(rank)
      : "memory");
  memcpy(&value, word, sizeof(value));
#else
  memcpy(&value, shared, sizeof(value));
#endif
  return value;
}

// All threads of all blocks of the cluster arrive; stores before it are seen after it.
__device__ __forceinline__ void ClusterBarrier() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  // Not `.aligned`, which wants all lanes of a warp to have reconverged: callers come from branches on the lane.
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
#else
  __syncthreads();
#endif
}

// All threads of all blocks of the cluster arrive. It orders nothing but barriers that FenceCopyBarriers made known:
// other stores, those to the block's own shared memory included, need a ClusterBarrier, which takes as long as a store
// to device memory.
__device__ __forceinline__ void ClusterMeeting() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait.acquire;" ::: "memory");
#else
  __syncthreads();
#endif
}

}  // namespace cudaep::device
