// Rows of heads that only move, or whose elements are all rotated by the numbers of their positions, as halves or as
// neighbours with a number each: what models mostly want of head_rows.h, in half of the registers and a fraction of the
// instructions.
#pragma once

#include <algorithm>
#include <bit>

#include "core/checked_math.h"
#include "kernels/attention/head_runs.cuh"
#include "kernels/common/trigger.cuh"

namespace cudaep::kernels {

struct PlainRows {
  const void* in = nullptr;
  void* out = nullptr;        // the first new row
  const void* cos = nullptr;  // of the first new row; null: rows only move
  const void* sin = nullptr;
  AttentionStrides in_strides, out_strides;
  int64_t cache_batch = 0;                  // elements between the caches of batch entries
  int32_t cache_row = 0, cache_second = 0;  // elements between positions, and between those of both halves
  FastDivider rows;
  uint32_t batch_rows = 0;  // of all groups of heads
  int32_t batch = 0, heads = 0;
  int32_t together = 1;     // heads of a group: a thread has them one after the other
  int32_t pairs = 0;        // of packs in a row, a half apart
  int32_t lanes_log = 0;    // threads that share a row
  int32_t interleaved = 0;  // neighbours are rotated; whole words, as HeadRows has
};

// Heads of a position that a thread has where there are enough of them for all threads (docs/benchmarks.md).
inline constexpr int64_t kHeadsTogether = 2, kLeastTogether = 1 << 20;  // elements

template <int N>
bool IsPlain(const HeadRowsPart& part) {
  const auto& [p, at] = part;
  const Rotary& r = p.rotary;
  const int64_t first = p.target == RowTarget::kAlone ? 0 : p.past_rows;  // of the new ones
  const bool no_others = p.target != RowTarget::kWhole || HasRuns(part) || (first == 0 && p.rows == p.new_rows);
  const bool moves = at.bias == nullptr && at.norm == nullptr && at.lengths == nullptr && p.size % (2 * N) == 0 &&
                     p.size / (2 * N) <= kRunThreads && first >= 0 && first + p.new_rows <= p.rows && no_others &&
                     FitsInt32(p.batch);
  if (r.dim == 0 || !moves) return moves;
  const int64_t before = r.new_only ? 0 : p.past_rows;
  const bool has_caches = before >= 0 && (p.batch - 1) * r.cache_batch_rows + before + p.new_rows <= r.cache_rows;
  return !r.ids && (!r.interleaved || r.each) && r.dim == p.size && has_caches;
}

template <class T, int N>
PlainRows PlainRowsOf(const HeadRowsPart& part) {
  const auto& [p, at] = part;
  const Rotary& r = p.rotary;
  const auto new_rows = static_cast<uint32_t>(p.new_rows);
  const bool many = p.batch * p.heads * p.new_rows * p.size >= kLeastTogether;
  const int64_t together = many ? std::min(p.heads, kHeadsTogether) : 1;
  PlainRows rows{.in = at.in,
                 .in_strides = p.in,
                 .out_strides = p.out,
                 .rows = FastDivider(new_rows),
                 .batch_rows = static_cast<uint32_t>(CeilDiv(p.heads, together)) * new_rows,
                 .batch = static_cast<int32_t>(p.batch),
                 .heads = static_cast<int32_t>(p.heads),
                 .together = static_cast<int32_t>(together),
                 .pairs = static_cast<int32_t>(p.size / (2 * N))};
  rows.out = static_cast<T*>(at.out) + (p.target == RowTarget::kAlone ? 0 : p.past_rows * p.out.row);
  rows.lanes_log = std::bit_width(static_cast<unsigned>(rows.pairs - 1));
  if (r.dim == 0) return rows;
  rows.interleaved = r.interleaved ? 1 : 0;
  rows.cache_row = static_cast<int32_t>(r.each ? r.dim : r.dim / 2);
  rows.cache_second = static_cast<int32_t>(r.each ? r.dim / 2 : 0);
  rows.cache_batch = r.cache_batch_rows * rows.cache_row;
  const int64_t before = r.new_only ? 0 : p.past_rows * rows.cache_row;
  rows.cos = static_cast<const T*>(at.cos) + before;
  rows.sin = static_cast<const T*>(at.sin) + before;
  return rows;
}

// Neighbours (x, y) of a pack as (x cos - y sin, x sin + y cos), with a cosine and a sine for each element.
template <class T, int N>
__device__ __forceinline__ RawPack<T, N> RotateNeighbours(const RawPack<T, N>& pack, const RawPack<T, N>& cos,
                                                          const RawPack<T, N>& sin) {
  ComputeType<T> x[N], c[N], s[N], turned[N];
  UnpackCompute<T, N>(pack, x);
  UnpackCompute<T, N>(cos, c);
  UnpackCompute<T, N>(sin, s);
#pragma unroll
  for (int k = 0; k < N; k += 2) {
    turned[k] = x[k] * c[k] - x[k + 1] * s[k];
    turned[k + 1] = x[k] * s[k + 1] + x[k + 1] * c[k + 1];
  }
  return PackCompute<T, N>(turned);
}

// Threads share rows in powers of two; a thread has a pair of packs. blockIdx.z is the part, or the runs.
template <class T, int N>
__global__ void __launch_bounds__(kRunThreads, 4) PlainRowsKernel(__grid_constant__ const AllRows<PlainRows> all) {
  TriggerDependentsOfOneRound(4 * kRunThreads, gridDim.x * gridDim.y * gridDim.z);
  device::GridDependencyWait();
  if (CopyRuns<T, N>(all)) return;
  const PlainRows& p = all.part[blockIdx.z];
  const int pair = static_cast<int>(threadIdx.x) & ((1 << p.lanes_log) - 1);
  const uint32_t index = blockIdx.x * (kRunThreads >> p.lanes_log) + (threadIdx.x >> p.lanes_log);
  if (pair >= p.pairs || index >= p.batch_rows) return;
  uint32_t row;
  const int head = p.together * static_cast<int>(p.rows.DivideWithRemainder(index, &row));
  const int count = device::Min(p.together, p.heads - head);
  const int column = pair * N, half = p.pairs * N;
  for (int batch = static_cast<int>(blockIdx.y); batch < p.batch; batch += static_cast<int>(gridDim.y)) {
    const T* from = static_cast<const T*>(p.in) + batch * p.in_strides.batch + head * p.in_strides.head +
                    row * p.in_strides.row + column;
    T* to = static_cast<T*>(p.out) + batch * p.out_strides.batch + head * p.out_strides.head + row * p.out_strides.row +
            column;
    RawPack<T, N> cos[2] = {}, sin[2] = {};
    if (p.cos != nullptr) {
      const int64_t at = batch * p.cache_batch + int64_t{row} * p.cache_row + column;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        cos[i] = LoadRaw<N>(static_cast<const T*>(p.cos) + at + i * p.cache_second);
        sin[i] = LoadRaw<N>(static_cast<const T*>(p.sin) + at + i * p.cache_second);
      }
    }
    for (int i = 0; i < count; ++i, from += p.in_strides.head, to += p.out_strides.head) {
      RawPack<T, N> a = LoadRaw<N>(from), b = LoadRaw<N>(from + half);
      if (p.interleaved != 0) {
        a = RotateNeighbours<T, N>(a, cos[0], sin[0]);
        b = RotateNeighbours<T, N>(b, cos[1], sin[1]);
      } else if (p.cos != nullptr) {
        ComputeType<T> x[N], y[N], c[N], d[N], turned[N];
        UnpackCompute<T, N>(a, x);
        UnpackCompute<T, N>(b, y);
        UnpackCompute<T, N>(cos[0], c);
        UnpackCompute<T, N>(sin[0], d);
#pragma unroll
        for (int k = 0; k < N; ++k) turned[k] = x[k] * c[k] - y[k] * d[k];
        a = PackCompute<T, N>(turned);
        UnpackCompute<T, N>(cos[1], c);
        UnpackCompute<T, N>(sin[1], d);
#pragma unroll
        for (int k = 0; k < N; ++k) turned[k] = x[k] * d[k] + y[k] * c[k];
        b = PackCompute<T, N>(turned);
      }
      StoreWords<N>(to, a);
      StoreWords<N>(to + half, b);
    }
  }
}

}  // namespace cudaep::kernels
