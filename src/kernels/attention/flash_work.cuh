// What a block of the attention kernel works on, how it loads tiles, and what scores it sees.
#pragma once

#include <cmath>
#include <limits>

#include "device/async_copy.h"
#include "kernels/attention/flash.h"
#include "kernels/pack.h"
#include "kernels/softmax/softmax_math.cuh"

namespace cudaep::kernels {

namespace flash {

// What a block works on.
struct Work {
  int64_t batch, head;      // the first of `packed` heads
  int64_t first_row, rows;  // of the matrix of packed * queries rows
  int split;
  int64_t value_column;
  int64_t position;            // of query 0 among the keys
  int64_t begin = 0, end = 0;  // of the keys that take part
  int64_t first, last;         // keys to walk over
  int64_t valid_values;        // keys whose values may be read
  int64_t low, high;           // first and last query
};

// One row of the matrix, as a lane needs it.
struct Row {
  bool valid;
  int64_t head, query;
};

// Of what the planner keeps below 2^31: a division of 64 bits is as long as a tile's softmax.
__device__ __forceinline__ int64_t Quotient(int64_t value, int64_t divisor) {
  return divisor == 1 ? value : static_cast<uint32_t>(value) / static_cast<uint32_t>(divisor);
}

__device__ __forceinline__ Row RowOf(const FlashArguments& p, const Work& work, int64_t row) {
  const bool valid = row < work.rows;
  const int64_t within = valid ? row : 0;
  const int64_t head = p.packed == 1 ? 0 : Quotient(within, p.problem.queries);
  return {valid, work.head + head, within - head * p.problem.queries};
}

// Which rows, columns and part of the keys; what takes no memory to find.
__device__ __forceinline__ Work PlaceOf(const FlashArguments& p, int rows_of_block, int values_of_block) {
  const AttentionProblem& problem = p.problem;
  Work work;
  int64_t index = blockIdx.x;
  const auto take = [&](int64_t count) {
    const int64_t rest = Quotient(index, count), at = index - rest * count;
    index = rest;
    return at;
  };
  // Of causal attention the last rows have most keys: they come first.
  work.first_row = (p.row_tiles - 1 - take(p.row_tiles)) * rows_of_block;
  work.value_column = take(p.value_chunks) * values_of_block;
  work.split = static_cast<int>(take(p.splits));
  work.head = take(p.head_groups) * p.packed;
  work.batch = index;
  work.rows = p.packed * problem.queries;
  const int64_t last_row = device::Min(work.first_row + rows_of_block, work.rows) - 1;
  const int64_t head = Quotient(work.first_row, problem.queries), last_head = Quotient(last_row, problem.queries);
  work.low = head == last_head ? work.first_row - head * problem.queries : 0;
  work.high = head == last_head ? last_row - head * problem.queries : problem.queries - 1;
  return work;
}

// Which keys, of a place.
template <bool kScores>
__device__ __forceinline__ void FindKeys(const FlashArguments& p, int keys_of_tile, Work& work) {
  const AttentionProblem& problem = p.problem;
  work.begin = p.at.key_begin == nullptr ? 0 : p.at.key_begin[work.batch];
  work.end = problem.keys;
  work.position = problem.past;
  if (p.at.key_end != nullptr) {
    const int64_t given = problem.key_end_type == DataType::kInt32
                              ? static_cast<const int32_t*>(p.at.key_end)[work.batch]
                              : static_cast<const int64_t*>(p.at.key_end)[work.batch];
    const int64_t end = given + problem.key_end_add;
    if (problem.from_end) work.position = end - problem.queries;
    work.end = device::Min(device::Max(end, int64_t{0}), problem.keys);
  }

  const bool hidden = std::isinf(problem.masked);  // keys outside of the range are not read
  work.valid_values = hidden ? work.end : problem.keys;
  work.first = 0;
  work.last = problem.keys;
  if (!kScores || p.at.scores == nullptr) {
    if (hidden) {
      work.first = device::Max(work.first, work.begin);
      work.last = device::Min(work.last, work.end);
    }
    work.first = device::Max(work.first, work.low + work.position - problem.left);
    work.last = device::Min(work.last, work.high + work.position + problem.right + 1);
    if (problem.mask != AttentionMask::kNone) work.last = device::Min(work.last, problem.mask_strides.keys);
    if (problem.bias) work.last = device::Min(work.last, problem.bias_strides.keys);
    if (p.splits > 1) {
      const int64_t tiles = (device::Max(work.last - work.first, int64_t{0}) + keys_of_tile - 1) / keys_of_tile;
      const int64_t part = Quotient(tiles + p.splits - 1, p.splits) * keys_of_tile;
      work.first += work.split * part;
      work.last = device::Min(work.last, work.first + part);
    }
  }
}

template <bool kScores>
__device__ __forceinline__ Work WorkOf(const FlashArguments& p, int rows_of_block, int values_of_block,
                                       int keys_of_tile) {
  Work work = PlaceOf(p, rows_of_block, values_of_block);
  FindKeys<kScores>(p, keys_of_tile, work);
  return work;
}

// Asks for a tile of `columns` (whole packs) by `rows`, of which the first `valid_rows` lie `step` elements apart from
// `from` on. Of a row the first `valid` elements are read, the rest of the tile becomes zero. kAligned: as `aligned`.
template <bool kAligned, class T>
__device__ __forceinline__ void LoadRows(T* tile, int stride, int rows, int columns, int64_t valid, bool aligned,
                                         const T* from, int64_t step, int64_t valid_rows) {
  constexpr int kPack = PackElems(sizeof(T)), kLanes = 8;  // of a row
  const int first = static_cast<int>(threadIdx.x) / kLanes, together = static_cast<int>(blockDim.x) / kLanes;
  const int there = static_cast<int>(device::Min(device::Max(valid_rows, int64_t{0}), int64_t{rows}));
  for (int c = static_cast<int>(threadIdx.x) % kLanes * kPack; c < columns; c += kLanes * kPack) {
    const int count = static_cast<int>(device::Min(device::Max(valid - c, int64_t{0}), int64_t{kPack}));
    const T* next = from + first * step + c;
    T* to = tile + first * stride + c;
    int r = first;
    if (kAligned || aligned) {
#pragma unroll 4
      for (; r < rows; r += together, next += together * step, to += together * stride) {
        const int read = r < there ? count : 0;
        device::CopyAsync<kPackBytes>(to, next, read * static_cast<int>(sizeof(T)));
      }
    }
    if constexpr (!kAligned) {
#pragma unroll 1
      for (; r < rows; r += together, next += together * step, to += together * stride) {
#pragma unroll
        for (int i = 0; i < kPack; ++i) to[i] = r < there && i < count ? next[i] : T{};
      }
    }
  }
}

// The same of rows that lie anywhere; row(r) is null where there is none.
template <bool kAligned, class T, class RowPointer>
__device__ __forceinline__ void LoadTile(T* tile, int stride, int rows, int columns, int64_t valid, bool aligned,
                                         const T* base, RowPointer row) {
  constexpr int kPack = PackElems(sizeof(T)), kLanes = 8;  // of a row
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
#pragma unroll 1
  for (int r = thread / kLanes; r < rows; r += threads / kLanes) {
    const T* const from = row(r);
    for (int c = thread % kLanes * kPack; c < columns; c += kLanes * kPack) {
      const int64_t left = from == nullptr ? 0 : valid - c;
      const int count = static_cast<int>(device::Min(device::Max(left, int64_t{0}), int64_t{kPack}));
      T* const to = tile + r * stride + c;
      if (kAligned || aligned) {
        device::CopyAsync<kPackBytes>(to, count > 0 ? from + c : base, count * static_cast<int>(sizeof(T)));
      } else {
#pragma unroll
        for (int i = 0; i < kPack; ++i) to[i] = i < count ? from[c + i] : T{};
      }
    }
  }
}

// Whether every row of the block sees every key of a tile. What lies before work.first is not walked over.
__device__ __forceinline__ bool IsWhole(const FlashArguments& p, const Work& work, int64_t key, int keys) {
  return key + keys <= work.last && key + keys - 1 <= work.low + work.position + p.problem.right &&
         key >= work.high + work.position - p.problem.left;
}

// The keys of a tile that a row sees.
struct Range {
  int begin, end;
};
__device__ __forceinline__ Range RangeOf(const FlashArguments& p, const Work& work, const Row& row, int64_t key,
                                         int keys) {
  const int64_t position = row.query + work.position;
  const auto within = [&](int64_t at) {
    return static_cast<int>(device::Min(device::Max(at - key, int64_t{0}), int64_t{keys}));
  };
  return {within(position - p.problem.left), within(device::Min(work.last, position + p.problem.right + 1))};
}

// What is added to a row's scores: where its keys begin.
template <class T, class Sum>
class Added {
 public:
  __device__ __forceinline__ Added(const FlashArguments& p, const Work& work, const Row& row)
      : problem_(p.problem), begin_(work.begin), end_(work.end) {
    const auto at = [&](const ScoreStrides& strides) {
      int64_t batch = work.batch;
      if (strides.batches != 0) batch -= Quotient(batch, strides.batches) * strides.batches;
      return batch * strides.batch + row.head * strides.head + row.query * strides.query;
    };
    const int64_t mask_bytes = problem_.mask == AttentionMask::kBool ? 1 : 4;
    if (problem_.mask != AttentionMask::kNone) {
      mask_ = static_cast<const std::byte*>(p.at.mask) + at(problem_.mask_strides) * mask_bytes;
    }
    if (problem_.bias) bias_ = static_cast<const T*>(p.at.bias) + at(problem_.bias_strides);
  }

  // Once they are found, where it was made of a place alone.
  __device__ __forceinline__ void SetKeys(const Work& work) { begin_ = work.begin, end_ = work.end; }

  __device__ __forceinline__ Sum operator()(int64_t key) const {
    constexpr Sum kHidden = -std::numeric_limits<Sum>::infinity();
    const auto masked = static_cast<Sum>(problem_.masked);
    Sum sum = 0;
    if (key < begin_ || key >= end_) sum += masked;
    if (problem_.mask != AttentionMask::kNone) {  // without keys it has no address
      if (key >= problem_.mask_strides.keys) return kHidden;
      const int64_t at = key * problem_.mask_strides.key;
      const bool taken = problem_.mask == AttentionMask::kBool ? static_cast<const uint8_t*>(mask_)[at] != 0
                                                               : static_cast<const int32_t*>(mask_)[at] != 0;
      if (!taken) sum += masked;
    }
    if (problem_.bias) {
      if (key >= problem_.bias_strides.keys) return kHidden;
      sum += static_cast<Sum>(Load(bias_[key * problem_.bias_strides.key]));
    }
    return sum;
  }

 private:
  const AttentionProblem& problem_;
  int64_t begin_, end_;
  const void* mask_ = nullptr;
  const T* bias_ = nullptr;
};

template <class T, class Sum>
__device__ __forceinline__ void WriteScore(const FlashArguments& p, const Work& work, const Row& row, int64_t key,
                                           Sum score) {
  if (!row.valid || key >= p.problem.keys || work.value_column != 0) return;
  if (p.problem.zero_hidden_scores && score == -std::numeric_limits<Sum>::infinity()) score = 0;
  const int64_t matrix = work.batch * p.problem.heads + row.head;
  static_cast<T*>(p.at.scores)[(matrix * p.problem.queries + row.query) * p.problem.keys + key] =
      Store<T>(static_cast<ComputeType<T>>(score));
}

template <class T, class Sum>
using Exponential = std::conditional_t<std::is_same_v<Sum, double>, ExpBelow<double>, ExpBelow<T>>;

// Over the four lanes of a row.
template <class Sum>
__device__ __forceinline__ Sum RowMax(Sum value) {
  value = SoftmaxMax(value, __shfl_xor_sync(device::kFullWarp, value, 1));
  return SoftmaxMax(value, __shfl_xor_sync(device::kFullWarp, value, 2));
}
template <class Sum>
__device__ __forceinline__ Sum RowSum(Sum value) {
  value += __shfl_xor_sync(device::kFullWarp, value, 1);
  return value + __shfl_xor_sync(device::kFullWarp, value, 2);
}

// A maximum that nothing has raised would make every difference NaN.
template <class Sum>
__device__ __forceinline__ Sum FiniteBase(Sum max) {
  return max == -std::numeric_limits<Sum>::infinity() ? Sum(0) : max;
}

}  // namespace flash

}  // namespace cudaep::kernels
