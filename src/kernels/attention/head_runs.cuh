// Past rows of a head that are neighbours in `past` and in `out`: one run to copy, of which a thread has several packs
// in flight. Row by row, with one pack a thread, the same copy reaches a quarter of the memory's rate.
#pragma once

#include "core/checked_math.h"
#include "kernels/attention/head_rows.h"
#include "kernels/common/raw_pack.cuh"
#include "kernels/fast_divide.h"

namespace cudaep::kernels {

inline constexpr unsigned kRunThreads = 256;
inline constexpr unsigned kRunPacks = 8;  // of a thread

struct HeadRuns {
  const void* from = nullptr;
  void* to = nullptr;
  AttentionStrides past, out;  // in elements
  FastDivider blocks;          // of a run
  uint32_t heads = 0;
  int64_t batch = 0;
  int64_t packs = 0;  // of a run
};

// Whether all that `part` writes before its new rows are such runs.
inline bool HasRuns(const HeadRowsPart& part) {
  const HeadRows& p = part.problem;
  return HasWholePast(part) && p.past.row == p.size && p.out.row == p.size && FitsInt32(p.past_rows * p.size);
}

template <class T, int N>
HeadRuns RunsOf(const HeadRowsPart& part) {
  const HeadRows& p = part.problem;
  HeadRuns runs{part.at.past, part.at.out, p.past, p.out};
  runs.packs = p.past_rows * p.size / N;
  runs.blocks = FastDivider(static_cast<uint32_t>(CeilDiv(runs.packs, int64_t{kRunThreads * kRunPacks})));
  runs.heads = static_cast<uint32_t>(p.heads);
  runs.batch = p.batch;
  return runs;
}

// What a block of the grid copies of a batch entry.
template <class T, int N>
__device__ __forceinline__ void CopyRun(const HeadRuns& runs, int64_t batch) {
  uint32_t block;
  const uint32_t head = runs.blocks.DivideWithRemainder(blockIdx.x, &block);
  if (head >= runs.heads) return;
  const T* const from = static_cast<const T*>(runs.from) + batch * runs.past.batch + head * runs.past.head;
  T* const to = static_cast<T*>(runs.to) + batch * runs.out.batch + head * runs.out.head;
  const int64_t first = int64_t{block} * kRunThreads * kRunPacks + threadIdx.x;
  RawPack<T, N> held[kRunPacks];
#pragma unroll
  for (unsigned i = 0; i < kRunPacks; ++i) {
    const int64_t pack = first + i * kRunThreads;
    if (pack < runs.packs) held[i] = LoadRaw<N>(from + pack * N);
  }
#pragma unroll
  for (unsigned i = 0; i < kRunPacks; ++i) {
    const int64_t pack = first + i * kRunThreads;
    if (pack < runs.packs) StoreWords<N>(to + pack * N, held[i]);
  }
}

// What a kernel writes together; the runs are the grid's layers behind the parts.
template <class Part>
struct AllRows {
  Part part[kMostHeadRowsParts];
  HeadRuns runs[kMostHeadRowsParts];
  unsigned parts = 0, unused = 0;
};

// Copies what the block has of the runs; false for a block of a part.
template <class T, int N, class Part>
__device__ __forceinline__ bool CopyRuns(const AllRows<Part>& all) {
  if (blockIdx.z < all.parts) return false;
  const HeadRuns& runs = all.runs[blockIdx.z - all.parts];
  for (int64_t batch = blockIdx.y; batch < runs.batch; batch += gridDim.y) CopyRun<T, N>(runs, batch);
  return true;
}

}  // namespace cudaep::kernels
