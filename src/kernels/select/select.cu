#include <algorithm>

#include "core/checked_math.h"
#include "device/launch.h"
#include "kernels/fast_divide.h"
#include "kernels/index_limit.h"
#include "kernels/pack.h"
#include "kernels/select/select.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kThreadElems = 16;
constexpr int kChunk = kThreadElems * kThreads;  // elements
constexpr int kScanThreads = 1024;
constexpr int kScanWarps = kScanThreads / 32;

// An element as a word; the mask leaves out the sign of a float.
template <class Word>
struct Elements {
  const Word* x;
  Word mask;
  bool packs;
  int64_t elems;
};

// Which elements of a thread are selected. A warp has a run of its chunk, in rounds of a pack for each lane.
template <class Word>
struct ThreadElements {
  static constexpr int kPack = PackElems(sizeof(Word)), kRounds = kThreadElems / kPack;
  uint32_t selected[kRounds];  // a bit for each element of the pack

  // The first element of a pack, counted from the chunk's.
  static __device__ __forceinline__ int Start(int round) {
    const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
    return warp * 32 * kThreadElems + (round * 32 + lane) * kPack;
  }

  __device__ __forceinline__ explicit ThreadElements(const Elements<Word>& elements) {
    const int64_t chunk = static_cast<int64_t>(blockIdx.x) * kChunk;
    Pack<Word, kPack> pack[kRounds] = {};
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const int64_t first = chunk + Start(r);
      if (elements.packs && first + kPack <= elements.elems) {
        pack[r] = LoadPack<kPack>(elements.x + first);
        continue;
      }
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        if (first + k < elements.elems) pack[r].value[k] = elements.x[first + k];
      }
    }
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      selected[r] = 0;
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        if ((pack[r].value[k] & elements.mask) != 0) selected[r] |= 1u << k;
      }
    }
  }
};

template <class Word>
__global__ void __launch_bounds__(kThreads)
    CountKernel(__grid_constant__ const Elements<Word> elements, int64_t* counts) {
  device::GridDependencyWait();
  __shared__ int warps[kWarps];
  const ThreadElements<Word> mine(elements);
  int count = 0;
  for (const uint32_t selected : mine.selected) count += __popc(selected);
  count = device::WarpReduce(count, [](int a, int b) { return a + b; });
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = count;
  __syncthreads();
  if (threadIdx.x != 0) return;
  int sum = 0;
  for (int i = 0; i < kWarps; ++i) sum += warps[i];
  counts[blockIdx.x] = sum;
}

// Turns the chunks' numbers into those found before each of them, with the sum behind the last.
__global__ void __launch_bounds__(kScanThreads) ScanKernel(int64_t* counts, int64_t chunks) {
  device::GridDependencyWait();
  __shared__ int64_t warps[kScanWarps];
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  int64_t before = 0;  // all rounds
  for (int64_t first = 0; first < chunks; first += kScanThreads) {
    const int64_t i = first + threadIdx.x;
    const int64_t count = i < chunks ? counts[i] : 0;
    int64_t sum = count;
    for (int offset = 1; offset < 32; offset *= 2) {
      const int64_t lower = __shfl_up_sync(device::kFullWarp, sum, static_cast<unsigned>(offset));
      if (lane >= offset) sum += lower;
    }
    if (lane == 31) warps[warp] = sum;
    __syncthreads();
    int64_t lower_warps = 0, round = 0;
    for (int w = 0; w < kScanWarps; ++w) {
      if (w < warp) lower_warps += warps[w];
      round += warps[w];
    }
    __syncthreads();
    if (i < chunks) counts[i] = before + lower_warps + sum - count;
    before += round;
  }
  if (threadIdx.x == 0) counts[chunks] = before;
}

struct PositionSink {
  int64_t* out;
  __device__ __forceinline__ void Write(int64_t rank, int64_t position) const { out[rank] = position; }
};

struct CoordinateSink {
  int64_t* out;
  int64_t total;
  int dims;
  bool narrow;  // positions have 32 bits
  FastDivider divider[kMaxSelectRank];
  int64_t size[kMaxSelectRank];
  __device__ __forceinline__ void Write(int64_t rank, int64_t position) const {
    if (narrow) {
      auto rest = static_cast<uint32_t>(position);
      for (int d = dims - 1; d > 0; --d) {
        uint32_t coordinate;
        rest = divider[d].DivideWithRemainder(rest, &coordinate);
        out[d * total + rank] = coordinate;
      }
      out[rank] = rest;
      return;
    }
    for (int d = dims - 1; d > 0; --d) {
      const int64_t outer = position / size[d];
      out[d * total + rank] = position - outer * size[d];
      position = outer;
    }
    out[rank] = position;
  }
};

// The chunk's positions are put in order in shared memory, so that neighbours write neighbouring results.
template <class Word, class Sink>
__global__ void __launch_bounds__(kThreads) WriteKernel(__grid_constant__ const Elements<Word> elements,
                                                        const int64_t* counts, __grid_constant__ const Sink sink) {
  using Mine = ThreadElements<Word>;
  device::GridDependencyWait();
  __shared__ int warps[kWarps];
  __shared__ uint16_t found[kChunk];
  const int64_t before = counts[blockIdx.x];
  const int total = static_cast<int>(counts[blockIdx.x + 1] - before);
  if (total == 0) return;  // the same for the whole block
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const Mine mine(elements);
  int rank[Mine::kRounds], in_warp = 0;
#pragma unroll
  for (int r = 0; r < Mine::kRounds; ++r) {
    const int count = __popc(mine.selected[r]);
    int sum = count;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const int lower = __shfl_up_sync(device::kFullWarp, sum, static_cast<unsigned>(offset));
      if (lane >= offset) sum += lower;
    }
    rank[r] = in_warp + sum - count;
    in_warp += __shfl_sync(device::kFullWarp, sum, 31);
  }
  if (lane == 0) warps[warp] = in_warp;
  __syncthreads();
  int lower_warps = 0;
  for (int w = 0; w < warp; ++w) lower_warps += warps[w];
#pragma unroll
  for (int r = 0; r < Mine::kRounds; ++r) {
    int at = lower_warps + rank[r];
    const int start = Mine::Start(r);
#pragma unroll
    for (int k = 0; k < Mine::kPack; ++k) {
      if ((mine.selected[r] >> k & 1u) != 0) found[at++] = static_cast<uint16_t>(start + k);
    }
  }
  __syncthreads();
  const int64_t chunk = static_cast<int64_t>(blockIdx.x) * kChunk;
  for (int i = static_cast<int>(threadIdx.x); i < total; i += kThreads) sink.Write(before + i, chunk + found[i]);
}

device::LaunchConfig Config(int64_t blocks, unsigned threads = kThreads) {
  return {.grid = {static_cast<unsigned>(blocks)}, .block = {threads}, .programmatic = true};
}

// Calls `visit(Elements<Word>)` for the words that hold the plan's elements.
template <class Visitor>
Status VisitElements(const SelectPlan& plan, const void* x, Visitor&& visit) {
  const auto words = [&]<class Word>(Word all) {
    const bool is_float = kFloatTypes.Contains(plan.type);
    return visit(Elements<Word>{static_cast<const Word*>(x), static_cast<Word>(is_float ? all >> 1 : all),
                                IsAligned(x, kPackBytes), plan.elems});
  };
  switch (SizeOf(plan.type)) {
    case 1:
      return words(uint8_t{UINT8_MAX});
    case 2:
      return words(uint16_t{UINT16_MAX});
    case 4:
      return words(uint32_t{UINT32_MAX});
    case 8:
      return words(uint64_t{UINT64_MAX});
    default:
      return NotSupported("element type ", DataTypeName(plan.type));
  }
}

}  // namespace

SelectPlan PlanSelect(DataType type, int64_t elems) {
  return {.type = type, .elems = elems, .chunks = CeilDiv<int64_t>(elems, kChunk)};
}

Status LaunchCountNonZero(const SelectPlan& plan, const void* x, int64_t* counts, device::Stream stream) {
  if (plan.chunks != 0) {
    CUDAEP_RETURN_IF_ERROR(VisitElements(plan, x, [&]<class Word>(Elements<Word> elements) {
      return device::Launch(CountKernel<Word>, Config(plan.chunks), stream, elements, counts);
    }));
  }
  return device::Launch(ScanKernel, Config(1, kScanThreads), stream, counts, plan.chunks);
}

Status LaunchWritePositions(const SelectPlan& plan, const void* x, const int64_t* counts, int64_t* out,
                            device::Stream stream) {
  if (plan.chunks == 0) return Status::Ok();
  return VisitElements(plan, x, [&]<class Word>(Elements<Word> elements) {
    return device::Launch(WriteKernel<Word, PositionSink>, Config(plan.chunks), stream, elements, counts,
                          PositionSink{out});
  });
}

Status LaunchWriteCoordinates(const SelectPlan& plan, Dims dims, const void* x, const int64_t* counts, int64_t total,
                              int64_t* out, device::Stream stream) {
  if (plan.chunks == 0 || total == 0 || dims.empty()) return Status::Ok();
  if (dims.size() > kMaxSelectRank) return NotSupported("more than ", kMaxSelectRank, " dimensions");
  CoordinateSink sink{out, total, static_cast<int>(dims.size()), FitsIndex(plan.elems), {}, {}};
  std::copy(dims.begin(), dims.end(), sink.size);
  for (size_t d = 0; sink.narrow && d < dims.size(); ++d) {
    sink.divider[d] = FastDivider(static_cast<uint32_t>(dims[d]));
  }
  return VisitElements(plan, x, [&]<class Word>(Elements<Word> elements) {
    return device::Launch(WriteKernel<Word, CoordinateSink>, Config(plan.chunks), stream, elements, counts, sink);
  });
}

}  // namespace cudaep::kernels
