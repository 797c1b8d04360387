#include <algorithm>
#include <bit>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "kernels/attention/head_rows.h"
#include "kernels/attention/plain_rows.cuh"
#include "kernels/common/raw_pack.cuh"
#include "kernels/common/trigger.cuh"
#include "kernels/fast_divide.h"

namespace cudaep::kernels {
namespace {

constexpr unsigned kThreads = kRunThreads, kThreadsAtOnce = 1024;  // of a multiprocessor
constexpr int64_t kMostBatches = 65535;

struct Arguments {
  HeadRows problem;
  HeadRowsPointers at;
  FastDivider rows;     // that are written for a head
  uint32_t batch_rows;  // of all heads
  int lanes_log;        // threads that share a row
  int pairs;            // of packs that are rotated
  int units;            // pairs, and packs behind them
  int unused = 0;       // whole words, as HeadRows has
};

// Where a row comes from and where it goes.
template <class T>
struct Place {
  const T* from;  // null: zeros
  T* to;          // null: nothing is written
  bool is_new;
  int64_t new_row, position;
};

template <class T>
__device__ __forceinline__ Place<T> PlaceOf(const Arguments& p, int64_t batch, int64_t head, int64_t row,
                                            int64_t past_rows) {
  const HeadRows& problem = p.problem;
  const auto at = [&](const AttentionStrides& strides, int64_t r) {
    return batch * strides.batch + head * strides.head + r * strides.row;
  };
  Place<T> place;
  place.position = problem.target == RowTarget::kWhole ? row : row + past_rows;
  place.new_row = place.position - past_rows;
  place.is_new = place.new_row >= 0 && place.new_row < problem.new_rows;
  const int64_t out_row = problem.target == RowTarget::kAlone ? row : place.position;
  place.to = out_row < problem.rows ? static_cast<T*>(p.at.out) + at(problem.out, out_row) : nullptr;
  place.from = nullptr;
  if (place.is_new) {
    place.from = static_cast<const T*>(p.at.in) + at(problem.in, place.new_row);
  } else if (place.new_row < 0 && place.position < problem.past_capacity) {
    place.from = static_cast<const T*>(p.at.past) + at(problem.past, place.position);
  }
  return place;
}

// The row of the caches, -1 for one outside.
template <class T>
__device__ __forceinline__ int64_t CacheRow(const Arguments& p, int64_t batch, const Place<T>& place) {
  const Rotary& rotary = p.problem.rotary;
  int64_t row = batch * rotary.cache_batch_rows + (rotary.new_only ? place.new_row : place.position);
  if (rotary.ids) {
    row = rotary.offset_ids ? p.at.position_ids[0] + place.new_row
                            : p.at.position_ids[batch * rotary.ids_batch_stride + place.new_row];
  }
  return row >= 0 && row < rotary.cache_rows ? row : -1;
}

template <class T, int N>
struct Values {
  using C = ComputeType<T>;
  C value[N];

  static __device__ __forceinline__ Values Of(const T* pointer) {
    Values values;
    UnpackCompute<T, N>(LoadRaw<N>(pointer), values.value);
    return values;
  }
  __device__ __forceinline__ void Add(const T* pointer) {
    const Values other = Of(pointer);
#pragma unroll
    for (int i = 0; i < N; ++i) value[i] += other.value[i];
  }
  __device__ __forceinline__ void Scale(const T* weights, C factor) {
    const Values other = Of(weights);
#pragma unroll
    for (int i = 0; i < N; ++i) value[i] *= factor * other.value[i];
  }
  __device__ __forceinline__ C SumOfSquares() const {
    C sum = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) sum += value[i] * value[i];
    return sum;
  }
  __device__ __forceinline__ void StoreTo(T* pointer) const { StoreWords<N>(pointer, PackCompute<T, N>(value)); }
};

// What a new row's elements are before they are rotated.
template <class T, int N>
struct Source {
  using C = ComputeType<T>;
  const T* from;
  const T* bias;  // or null
  const T* norm;  // or null
  C factor;       // of the row, with norm

  __device__ __forceinline__ Values<T, N> At(int64_t column) const {
    auto values = Values<T, N>::Of(from + column);
    if (bias != nullptr) values.Add(bias + column);
    if (norm != nullptr) values.Scale(norm + column, factor);
    return values;
  }
};

// Neighbours (a[0], a[1]), ..., (b[N - 2], b[N - 1]): the first of each go to `a`, the second ones to `b`.
template <class T, int N>
__device__ __forceinline__ void Deinterleave(Values<T, N>& a, Values<T, N>& b) {
  const Values<T, N> x = a, y = b;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int even = 2 * i % N, odd = (2 * i + 1) % N;
    a.value[i] = 2 * i < N ? x.value[even] : y.value[even];
    b.value[i] = 2 * i < N ? x.value[odd] : y.value[odd];
  }
}
// The other way round.
template <class T, int N>
__device__ __forceinline__ void Interleave(Values<T, N>& a, Values<T, N>& b) {
  const Values<T, N> x = a, y = b;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    a.value[i] = i % 2 == 0 ? x.value[i / 2] : y.value[i / 2];
    b.value[i] = i % 2 == 0 ? x.value[(N + i) / 2] : y.value[(N + i) / 2];
  }
}

// Two packs of a row that are rotated together, and their columns.
template <class T, int N>
struct PackPair {
  Values<T, N> x, y;
  int64_t first, second;

  __device__ __forceinline__ void StoreTo(T* row) const {
    x.StoreTo(row + first);
    y.StoreTo(row + second);
  }
};

template <class T, int N>
__device__ __forceinline__ PackPair<T, N> Rotated(const Arguments& p, const Source<T, N>& row, int64_t cache_row,
                                                  int pair) {
  using C = ComputeType<T>;
  const Rotary& rotary = p.problem.rotary;
  const int64_t half = rotary.dim / 2, at = int64_t{pair} * N;
  const int64_t first = rotary.interleaved ? 2 * at : at, second = rotary.interleaved ? first + N : at + half;
  auto x = row.At(first), y = row.At(second);
  Values<T, N> cos = {}, sin = {}, y_cos = {}, y_sin = {};
  if (cache_row >= 0) {
    const int64_t start = rotary.each ? cache_row * rotary.dim + first : cache_row * half + at;
    const T *const cos_at = static_cast<const T*>(p.at.cos) + start, *const sin_at =
                                                                         static_cast<const T*>(p.at.sin) + start;
    cos = Values<T, N>::Of(cos_at);
    sin = Values<T, N>::Of(sin_at);
    y_cos = rotary.each ? Values<T, N>::Of(cos_at + (second - first)) : cos;
    y_sin = rotary.each ? Values<T, N>::Of(sin_at + (second - first)) : sin;
  }
  const bool neighbours = rotary.interleaved && N > 1;  // of one element each, x and y are a pair already
  if (neighbours) {
    Deinterleave(x, y);
    if (rotary.each) Deinterleave(cos, y_cos), Deinterleave(sin, y_sin);
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const C real = x.value[i] * cos.value[i] - y.value[i] * sin.value[i];
    y.value[i] = x.value[i] * y_sin.value[i] + y.value[i] * y_cos.value[i];
    x.value[i] = real;
  }
  if (neighbours) Interleave(x, y);
  return {x, y, first, second};
}

// One over the root mean square of a row whose first `pairs` of packs are rotated. The lanes of `group` share the row
// and call this together.
template <class T, int N>
__device__ __forceinline__ ComputeType<T> NormFactor(const Arguments& p, const Source<T, N>& row, int64_t cache_row,
                                                     int pairs, int lane, unsigned group) {
  using C = ComputeType<T>;
  const int lanes = 1 << p.lanes_log;
  const auto size = static_cast<int>(p.problem.size / N);
  C sum = 0;
  for (int unit = lane; unit < size - pairs; unit += lanes) {
    if (unit < pairs) {
      const PackPair<T, N> pair = Rotated<T, N>(p, row, cache_row, unit);
      sum += pair.x.SumOfSquares() + pair.y.SumOfSquares();
    } else {
      sum += row.At(int64_t{unit + pairs} * N).SumOfSquares();
    }
  }
  for (int offset = lanes / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(group, sum, offset);
  return C(1) / std::sqrt(sum / static_cast<C>(p.problem.size) + static_cast<C>(p.problem.norm_epsilon));
}

// Threads share rows in powers of two; a thread has a pair of packs, or a pack, at a time. blockIdx.z is the part, or
// the runs.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) HeadRowsKernel(__grid_constant__ const AllRows<Arguments> all) {
  TriggerDependentsOfOneRound(kThreadsAtOnce, gridDim.x * gridDim.y * gridDim.z);
  device::GridDependencyWait();
  if (CopyRuns<T, N>(all)) return;
  const Arguments& p = all.part[blockIdx.z];
  const HeadRows& problem = p.problem;
  const int lane = static_cast<int>(threadIdx.x) & ((1 << p.lanes_log) - 1);
  const uint64_t rows_of_block = kThreads >> p.lanes_log;
  // Used where a row has at most a warp.
  const unsigned group = (device::kFullWarp >> (32 - device::Min(1 << p.lanes_log, 32)))
                         << (threadIdx.x % 32 & ~((1u << p.lanes_log) - 1));
  for (int64_t batch = blockIdx.y; batch < problem.batch; batch += gridDim.y) {
    int64_t past_rows = problem.past_rows;
    if (p.at.lengths != nullptr) past_rows = device::Max<int64_t>(p.at.lengths[batch] + problem.lengths_add, 0);
    for (uint64_t index = blockIdx.x * rows_of_block + (threadIdx.x >> p.lanes_log); index < p.batch_rows;
         index += gridDim.x * rows_of_block) {
      uint32_t row;
      const int64_t head = p.rows.DivideWithRemainder(static_cast<uint32_t>(index), &row);
      const Place<T> place = PlaceOf<T>(p, batch, head, row, past_rows);
      if (place.to == nullptr) continue;
      Source<T, N> source{place.from, nullptr, nullptr, 1};
      if (place.is_new && p.at.bias != nullptr) source.bias = static_cast<const T*>(p.at.bias) + head * problem.size;
      const int pairs = place.is_new ? p.pairs : 0;
      const int units = place.is_new ? p.units : p.units + p.pairs;
      const int64_t cache_row = pairs != 0 ? CacheRow(p, batch, place) : 0;
      const T* norm_last = nullptr;
      ComputeType<T> factor = 1;
      if (place.is_new && p.at.norm != nullptr) {
        factor = NormFactor(p, source, cache_row, problem.norm_last ? pairs : 0, lane, group);
        if (problem.norm_last) {
          norm_last = static_cast<const T*>(p.at.norm);
        } else {
          source.norm = static_cast<const T*>(p.at.norm);
          source.factor = factor;
        }
      }
      for (int unit = lane; unit < units; unit += 1 << p.lanes_log) {
        if (unit < pairs) {
          PackPair<T, N> pair = Rotated<T, N>(p, source, cache_row, unit);
          if (norm_last != nullptr) {
            pair.x.Scale(norm_last + pair.first, factor);
            pair.y.Scale(norm_last + pair.second, factor);
          }
          pair.StoreTo(place.to);
          continue;
        }
        const int64_t column = int64_t{unit + pairs} * N;
        Values<T, N> values = {};
        if (place.from != nullptr) values = source.At(column);
        if (norm_last != nullptr) values.Scale(norm_last + column, factor);
        values.StoreTo(place.to + column);
      }
    }
  }
}

bool Suits(const AttentionStrides& strides, const void* pointer, int64_t pack, size_t bytes) {
  return strides.batch % pack == 0 && strides.head % pack == 0 && strides.row % pack == 0 && IsAligned(pointer, bytes);
}

template <class T>
bool SuitsPacks(const HeadRowsPart& part) {
  constexpr int kPack = PackElems(sizeof(T));
  const auto& [problem, at] = part;
  const auto aligned = [](const void* pointer) { return IsAligned(pointer, kPackBytes); };
  return problem.size % kPack == 0 && problem.rotary.dim % (2 * kPack) == 0 &&
         Suits(problem.in, at.in, kPack, kPackBytes) && Suits(problem.out, at.out, kPack, kPackBytes) &&
         (problem.past_capacity == 0 || Suits(problem.past, at.past, kPack, kPackBytes)) && aligned(at.bias) &&
         aligned(at.norm) && aligned(at.cos) && aligned(at.sin);
}

// Rows that are written for a head.
int64_t RowsOf(const HeadRows& problem) {
  return problem.target == RowTarget::kWhole ? problem.rows : problem.new_rows;
}

Arguments ArgumentsOf(const HeadRowsPart& part, int64_t pack) {
  const auto& [problem, at] = part;
  const auto rows = static_cast<uint32_t>(RowsOf(problem));
  Arguments arguments{.problem = problem,
                      .at = at,
                      .rows = FastDivider(rows),
                      .batch_rows = static_cast<uint32_t>(problem.heads) * rows};
  arguments.pairs = static_cast<int>(problem.rotary.dim / 2 / pack);
  arguments.units = static_cast<int>(problem.size / pack) - arguments.pairs;
  arguments.lanes_log = std::min(std::bit_width(static_cast<unsigned>(std::max(arguments.units, 1) - 1)),
                                 std::bit_width(at.norm == nullptr ? kThreads : 32u) - 1);
  return arguments;
}

// Parts of one form: those that suit packs or not, by `kernel`, which takes them as `make` has them.
template <class T, int N, class Kernel, class Make>
Status LaunchOf(std::span<const HeadRowsPart> parts, Kernel kernel, device::Stream stream, Make make) {
  using Part = decltype(make(parts[0]));
  AllRows<Part> all{};
  device::LaunchConfig config;
  config.grid = {0, 0, 0};
  config.block.x = kThreads;
  config.programmatic = true;
  unsigned runs = 0;
  const auto cover = [&config](int64_t blocks, int64_t batch) {
    config.grid.x = std::max(config.grid.x, static_cast<unsigned>(blocks));
    config.grid.y = std::max(config.grid.y, static_cast<unsigned>(std::min(batch, kMostBatches)));
  };
  for (HeadRowsPart part : parts) {
    HeadRows& problem = part.problem;
    if (N > 1 && HasRuns(part)) {
      const HeadRuns& run = all.runs[runs++] = RunsOf<T, N>(part);
      cover(int64_t{run.blocks.divisor} * run.heads, run.batch);
      problem.target = RowTarget::kInPlace;
    }
    if (RowsOf(problem) == 0) continue;
    const Part& made = all.part[all.parts++] = make(part);
    cover(CeilDiv(static_cast<int64_t>(made.batch_rows), int64_t{kThreads >> made.lanes_log}), problem.batch);
  }
  config.grid.z = all.parts + runs;
  return config.grid.z == 0 ? Status::Ok() : device::Launch(kernel, config, stream, all);
}

template <class T>
Status Launch(std::span<const HeadRowsPart> parts, device::Stream stream) {
  constexpr int kPack = PackElems(sizeof(T));
  HeadRowsPart sorted[kMostHeadRowsParts];  // packs from the front, others from the back
  size_t packs = 0, others = 0;
  for (const HeadRowsPart& part : parts) {
    const HeadRows& problem = part.problem;
    if (problem.batch == 0 || problem.heads == 0 || problem.size == 0) continue;
    (SuitsPacks<T>(part) ? sorted[packs++] : sorted[kMostHeadRowsParts - ++others]) = part;
  }
  const std::span<const HeadRowsPart> suit{sorted, packs};
  const Status launched = std::ranges::all_of(suit, IsPlain<kPack>)
                              ? LaunchOf<T, kPack>(suit, PlainRowsKernel<T, kPack>, stream, PlainRowsOf<T, kPack>)
                              : LaunchOf<T, kPack>(suit, HeadRowsKernel<T, kPack>, stream,
                                                   [](const auto& p) { return ArgumentsOf(p, kPack); });
  CUDAEP_RETURN_IF_ERROR(launched);
  return LaunchOf<T, 1>({sorted + kMostHeadRowsParts - others, others}, HeadRowsKernel<T, 1>, stream,
                        [](const auto& p) { return ArgumentsOf(p, 1); });
}

}  // namespace

Status LaunchHeadRows(std::span<const HeadRowsPart> parts, device::Stream stream) {
  if (parts.empty()) return Status::Ok();
  if (parts.size() > kMostHeadRowsParts) return InvalidArgument(parts.size(), " parts of rows");
  const DataType type = parts[0].problem.type;
  for (const auto& [problem, at] : parts) {
    const int64_t rows = RowsOf(problem);
    if (problem.type != type) return InvalidArgument("parts of rows of several types");
    if (!FitsInt32(problem.heads * rows) || !FitsInt32(problem.size)) {
      return NotSupported(problem.heads, " heads of ", rows, " rows, more than 2^31");
    }
  }
  return VisitType<kFloatTypes>(type, NotSupported("rows of ", DataTypeName(type)),
                                [&]<class T>() { return Launch<T>(parts, stream); });
}

}  // namespace cudaep::kernels
