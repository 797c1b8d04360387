#include "device/async_copy.h"
#include "device/cluster.h"
#include "device/launch.h"
#include "device/tensor_core.h"
#include "device/words.h"
#include "vocabulary_kernels.h"

namespace cudaep::device::testing {
namespace {

// The words of fragments from row-major operands.
template <class T>
__device__ uint32_t WordOf(const T* first, int step) {
  if constexpr (std::is_same_v<T, float>) return Tf32Word(*first);
  uint32_t word = 0;
  for (int i = 0; i < static_cast<int>(4 / sizeof(T)); ++i) {
    uint32_t bits = 0;
    if constexpr (sizeof(T) == 2) {
      bits = first[i * step].bits;
    } else {
      bits = static_cast<uint8_t>(first[i * step]);
    }
    word |= bits << (8 * sizeof(T) * i);
  }
  return word;
}

template <class A, class B, class Sum>
__global__ void MmaKernel(const A* a, const B* b, Sum* d) {
  constexpr int kDepth = kMmaDepth<A>, kElems = kDepth / 8;
  const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
  FragmentA<A> fragment_a;
  FragmentB<B> fragment_b;
  FragmentD<Sum> fragment_d;
  for (int i = 0; i < 4; ++i) {
    fragment_a.word[i] = WordOf(a + (g + i % 2 * 8) * kDepth + kElems * (t + i / 2 * 4), 1);
    fragment_d.value[i] = d[MmaRow(lane, i) * 8 + MmaColumn(lane, i)];
  }
  for (int i = 0; i < 2; ++i) fragment_b.word[i] = WordOf(b + kElems * (t + i * 4) * 8 + g, 8);
  Mma(fragment_d, fragment_a, fragment_b);
  for (int i = 0; i < 4; ++i) d[MmaRow(lane, i) * 8 + MmaColumn(lane, i)] = fragment_d.value[i];
}

template <class T>
__global__ void LoadedMmaKernel(const T* a, const T* b, float* d) {
  __shared__ __align__(16) T tile_a[16 * 16];
  __shared__ __align__(16) T tile_b[16 * 8];
  const int lane = static_cast<int>(threadIdx.x);
  CopyAsync<16>(tile_a + lane * 8, a + lane * 8);
  if (lane < 16) CopyAsync<16>(tile_b + lane * 8, b + lane * 8);
  CommitCopies();
  WaitForCopies<0>();
  __syncwarp();
  FragmentA<T> fragment_a;
  FragmentB<T> fragment_b;
  FragmentD<float> fragment_d;
  LoadMatrix<4>(fragment_a.word, tile_a + (lane % 16) * 16 + lane / 16 * 8);
  LoadMatrix<2, true>(fragment_b.word, tile_b + lane % 16 * 8);
  for (int i = 0; i < 4; ++i) fragment_d.value[i] = d[MmaRow(lane, i) * 8 + MmaColumn(lane, i)];
  Mma(fragment_d, fragment_a, fragment_b);
  for (int i = 0; i < 4; ++i) d[MmaRow(lane, i) * 8 + MmaColumn(lane, i)] = fragment_d.value[i];
}

template <int kCount, bool kTransposed>
__global__ void LoadMatrixKernel(const uint16_t* in, uint32_t* out) {
  __shared__ __align__(16) uint16_t tile[kCount * 64];
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < kCount * 64; i += 32) tile[i] = in[i];
  __syncwarp();
  uint32_t word[kCount];
  LoadMatrix<kCount, kTransposed>(word, tile + lane % (8 * kCount) * 8);
  for (int m = 0; m < kCount; ++m) out[lane * kCount + m] = word[m];
}

__global__ void Words(const int32_t* in, uint32_t* out, int count) {
  for (int i = static_cast<int>(threadIdx.x); i + 1 < count; i += 32) {
    const int32_t a = in[i], b = in[i + 1];
    const auto word = static_cast<uint32_t>(a), ones = static_cast<uint32_t>(b) & 0x01010101u;
    out[4 * i] = JoinWithinBytes(a, b);
    out[4 * i + 1] = JoinWithinBytes(b, a, a, b);
    out[4 * i + 2] = static_cast<uint32_t>(SumOfBytes<true>(word, ones));
    out[4 * i + 3] = static_cast<uint32_t>(SumOfBytes<false>(word, ones));
  }
}

__global__ void GroupCopies(const float* in, float* out, int tiles, CopyMistake mistake) {
  __shared__ __align__(16) float slots[kAhead + 1][kTile];
  const int thread = static_cast<int>(threadIdx.x);
  const int shift = mistake == CopyMistake::kMisaligned ? 1 : 0;
  const auto copy = [&](int tile) {
    if (tile < tiles && thread % 4 == 0) {
      CopyAsync<16>(slots[tile % (kAhead + 1)] + thread + shift, in + tile * kTile + thread);
    }
    CommitCopies();
  };
  for (int tile = 0; tile < kAhead; ++tile) copy(tile);
  for (int tile = 0; tile < tiles; ++tile) {
    if (mistake == CopyMistake::kTooFewWaits) {
      WaitForCopies<kAhead>();
    } else if (mistake != CopyMistake::kNoWait) {
      WaitForCopies<kAhead - 1>();
    }
    __syncthreads();
    out[tile * kTile + thread] = 2 * slots[tile % (kAhead + 1)][thread];
    copy(tile + kAhead);
  }
}

__global__ void BulkCopies(const float* in, float* out, int tiles, CopyMistake mistake) {
  __shared__ __align__(16) float slots[kAhead][kTile];
  __shared__ CopyBarrier barriers[kAhead];
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0 && mistake != CopyMistake::kNoInit) {
    for (CopyBarrier& barrier : barriers) barrier.Init(1);
    FenceCopyBarriers();
  }
  __syncthreads();
  const auto policy = EvictLast();
  const auto copy = [&](int tile) {
    if (tile >= tiles || thread != 0) return;
    CopyBarrier& barrier = barriers[tile % kAhead];
    unsigned bytes = kTile * sizeof(float);
    if (mistake == CopyMistake::kTooFewBytes) bytes -= 16;
    if (mistake == CopyMistake::kTooManyBytes) bytes += 16;
    barrier.ArriveExpecting(bytes);
    float* const to = slots[tile % kAhead] + (mistake == CopyMistake::kMisaligned ? 1 : 0);
    BulkCopy(to, in + tile * kTile, kTile * sizeof(float) / 2, &barrier);
    BulkCopy(to + kTile / 2, in + tile * kTile + kTile / 2, kTile * sizeof(float) / 2, &barrier, policy);
  };
  for (int tile = 0; tile < kAhead; ++tile) copy(tile);
  const int read = mistake == CopyMistake::kNotWaitedFor ? tiles - 1 : tiles;
  for (int tile = 0; tile < read; ++tile) {
    if (mistake != CopyMistake::kNoWait) barriers[tile % kAhead].Wait(static_cast<unsigned>(tile / kAhead % 2));
    out[tile * kTile + thread] = 2 * slots[tile % kAhead][thread];
    __syncthreads();
    copy(tile + kAhead);
  }
}

// A tile is read by one block of a cluster, which stores it into the next one's shared memory.
__global__ void ClusterStores(const float* in, float* out, int tiles, CopyMistake mistake) {
  struct alignas(16) Pack {
    float value[4];
  };
  __shared__ Pack slots[kAhead][kTile / 4 + 1];
  __shared__ CopyBarrier barriers[kAhead];
  const int thread = static_cast<int>(threadIdx.x), blocks = static_cast<int>(ClusterBlocks());
  const int rank = static_cast<int>(ClusterRank());
  if (thread == 0 && mistake != CopyMistake::kNoInit) {
    for (CopyBarrier& barrier : barriers) barrier.Init(1);
    FenceCopyBarriers();
  }
  ClusterBarrier();
  for (int tile = 0; tile < tiles; ++tile) {
    const int slot = tile % kAhead, receiver = tile % blocks;
    CopyBarrier& barrier = barriers[slot];
    if (rank == receiver && thread == 0) {
      unsigned bytes = kTile * sizeof(float);
      if (mistake == CopyMistake::kTooFewBytes) bytes -= 16;
      if (mistake == CopyMistake::kTooManyBytes) bytes += 16;
      barrier.ArriveExpecting(bytes);
    }
    if (rank == (receiver + blocks - 1) % blocks && thread < kTile / 4) {
      Pack pack;
      memcpy(&pack, in + tile * kTile + thread * 4, sizeof(pack));
      auto* const to =
          reinterpret_cast<std::byte*>(&slots[slot][thread]) + (mistake == CopyMistake::kMisaligned ? 4 : 0);
      StoreToClusterAsync(reinterpret_cast<Pack*>(to), &barrier, static_cast<unsigned>(receiver), pack);
    }
    const bool reads = mistake != CopyMistake::kNotWaitedFor || tile + 1 < tiles;
    if (rank == receiver && reads) {
      if (mistake != CopyMistake::kNoWait) barrier.Wait(static_cast<unsigned>(tile / (kAhead * blocks) % 2));
      out[tile * kTile + thread] = 2 * slots[slot][thread / 4].value[thread % 4];
    }
    ClusterBarrier();
  }
}

__global__ void BarrierCopies(const float* in, float* out, int tiles, CopyMistake mistake) {
  __shared__ __align__(16) float slots[kAhead][kTile];
  __shared__ CopyBarrier barriers[kAhead];
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    for (CopyBarrier& barrier : barriers) barrier.Init(kTile);
    FenceCopyBarriers();
  }
  __syncthreads();
  const auto copy = [&](int tile) {
    if (tile >= tiles) return;
    CopyAsync<4>(slots[tile % kAhead] + thread, in + tile * kTile + thread);
    if (mistake != CopyMistake::kNoArrival || thread != 5) barriers[tile % kAhead].ArriveAfterCopies();
  };
  for (int tile = 0; tile < kAhead; ++tile) copy(tile);
  for (int tile = 0; tile < tiles; ++tile) {
    if (mistake != CopyMistake::kNoWait) barriers[tile % kAhead].Wait(static_cast<unsigned>(tile / kAhead % 2));
    out[tile * kTile + thread] = 2 * slots[tile % kAhead][kTile - 1 - thread];
    __syncthreads();
    copy(tile + kAhead);
  }
}

__global__ void PartialCopy(const float* in, float* out, int valid_bytes) {
  __shared__ __align__(16) float words[12];
  for (int i = 0; i < 12; ++i) words[i] = 5;
  CopyAsync<4>(words, in, Min(valid_bytes, 4));
  CopyAsync<8>(words + 4, in, Min(valid_bytes, 8));
  CopyAsync<16>(words + 8, in, valid_bytes);
  CommitCopies();
  WaitForCopies<0>();
  for (int i = 0; i < 12; ++i) out[i] = words[i];
}

__global__ void Math(const float* in, float* exponentials, const uint32_t* pairs, uint32_t* halves, uint32_t* bfloats,
                     int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    PrefetchL2(in + i);
    exponentials[i] = FastExp2(in[i]);
    if (i + 1 == count) return;
    halves[i] = MaxOfPairs<Half>(pairs[i], pairs[i + 1]);
    bfloats[i] = MaxOfPairs<BFloat16>(pairs[i], pairs[i + 1]);
  }
}

template <int kCount>
Status LaunchLoad(Stream stream, const uint16_t* in, uint32_t* out, bool transposed) {
  return Launch(transposed ? LoadMatrixKernel<kCount, true> : LoadMatrixKernel<kCount, false>, {.block = {32}}, stream,
                in, out);
}

constexpr LaunchConfig kTileConfig{.block = {kTile}};

}  // namespace

template <class T>
Status LaunchMma(Stream stream, const T* a, const T* b, float* d) {
  return Launch(MmaKernel<T, T, float>, {.block = {32}}, stream, a, b, d);
}
template Status LaunchMma<Half>(Stream, const Half*, const Half*, float*);
template Status LaunchMma<float>(Stream, const float*, const float*, float*);
template Status LaunchMma<BFloat16>(Stream, const BFloat16*, const BFloat16*, float*);

template <class A, class B>
Status LaunchByteMma(Stream stream, const A* a, const B* b, int32_t* d) {
  return Launch(MmaKernel<A, B, int32_t>, {.block = {32}}, stream, a, b, d);
}
template Status LaunchByteMma<int8_t, int8_t>(Stream, const int8_t*, const int8_t*, int32_t*);
template Status LaunchByteMma<int8_t, uint8_t>(Stream, const int8_t*, const uint8_t*, int32_t*);
template Status LaunchByteMma<uint8_t, int8_t>(Stream, const uint8_t*, const int8_t*, int32_t*);
template Status LaunchByteMma<uint8_t, uint8_t>(Stream, const uint8_t*, const uint8_t*, int32_t*);

template <class T>
Status LaunchLoadedMma(Stream stream, const T* a, const T* b, float* d) {
  return Launch(LoadedMmaKernel<T>, {.block = {32}}, stream, a, b, d);
}
template Status LaunchLoadedMma<Half>(Stream, const Half*, const Half*, float*);
template Status LaunchLoadedMma<BFloat16>(Stream, const BFloat16*, const BFloat16*, float*);

Status LaunchLoadMatrix(Stream stream, const uint16_t* in, uint32_t* out, int count, bool transposed) {
  if (count == 1) return LaunchLoad<1>(stream, in, out, transposed);
  return count == 2 ? LaunchLoad<2>(stream, in, out, transposed) : LaunchLoad<4>(stream, in, out, transposed);
}

Status LaunchGroupCopies(Stream stream, const float* in, float* out, int tiles, CopyMistake mistake) {
  return Launch(GroupCopies, kTileConfig, stream, in, out, tiles, mistake);
}
Status LaunchBulkCopies(Stream stream, const float* in, float* out, int tiles, CopyMistake mistake) {
  return Launch(BulkCopies, kTileConfig, stream, in, out, tiles, mistake);
}
Status LaunchClusterStores(Stream stream, const float* in, float* out, int tiles, CopyMistake mistake) {
#if defined(CUDAEP_SIMULATED_DEVICE)
  constexpr unsigned kBlocks = 1;
#else
  constexpr unsigned kBlocks = 2;
#endif
  LaunchConfig config = kTileConfig;
  config.grid.x = config.cluster.x = kBlocks;
  return Launch(ClusterStores, config, stream, in, out, tiles, mistake);
}
Status LaunchBarrierCopies(Stream stream, const float* in, float* out, int tiles, CopyMistake mistake) {
  return Launch(BarrierCopies, kTileConfig, stream, in, out, tiles, mistake);
}
Status LaunchPartialCopy(Stream stream, const float* in, float* out, int valid_bytes) {
  return Launch(PartialCopy, {}, stream, in, out, valid_bytes);
}
Status LaunchMath(Stream stream, const float* in, float* exponentials, const uint32_t* pairs, uint32_t* halves,
                  uint32_t* bfloats, int count) {
  return Launch(Math, {.block = {32}}, stream, in, exponentials, pairs, halves, bfloats, count);
}
Status LaunchWords(Stream stream, const int32_t* in, uint32_t* out, int count) {
  return Launch(Words, {.block = {32}}, stream, in, out, count);
}
Status LaunchMmaOfHalfAWarp(Stream stream, float* d) {
  return Launch(MmaKernel<Half, Half, float>, {.block = {16}}, stream, reinterpret_cast<const Half*>(d),
                reinterpret_cast<const Half*>(d), d);
}

}  // namespace cudaep::device::testing
