#include <algorithm>

#include "core/checked_math.h"
#include "device/launch.h"
#include "kernels/common/block_rank.cuh"
#include "kernels/select/select.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int64_t kChunk = 16 * kThreads;  // elements

// An element as a word; the mask leaves out the sign of a float.
template <class Word>
struct Elements {
  const Word* x;
  Word mask;
  int64_t elems;

  __device__ __forceinline__ bool IsSelected(int64_t i) const { return i < elems && (x[i] & mask) != 0; }
};

template <class Word>
__global__ void __launch_bounds__(kThreads) CountKernel(Elements<Word> elements, int64_t* counts) {
  device::GridDependencyWait();
  __shared__ int warps[kWarps];
  int mine = 0;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kChunk;
  for (int64_t i = first + threadIdx.x; i < first + kChunk; i += kThreads) mine += elements.IsSelected(i) ? 1 : 0;
  mine = device::WarpReduce(mine, [](int a, int b) { return a + b; });
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x != 0) return;
  int sum = 0;
  for (int i = 0; i < kWarps; ++i) sum += warps[i];
  counts[blockIdx.x] = sum;
}

// Turns the chunks' numbers into those found before each of them, with the sum behind the last.
__global__ void __launch_bounds__(kThreads) ScanKernel(int64_t* counts, int64_t chunks) {
  device::GridDependencyWait();
  __shared__ int64_t warps[kWarps];
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  int64_t before = 0;  // all rounds
  for (int64_t first = 0; first < chunks; first += kThreads) {
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
    for (int w = 0; w < kWarps; ++w) {
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
  int64_t size[kMaxSelectRank];
  __device__ __forceinline__ void Write(int64_t rank, int64_t position) const {
    for (int d = dims - 1; d >= 0; --d) {
      const int64_t outer = position / size[d];
      out[d * total + rank] = position - outer * size[d];
      position = outer;
    }
  }
};

template <class Word, class Sink>
__global__ void __launch_bounds__(kThreads) WriteKernel(__grid_constant__ const Elements<Word> elements,
                                                        const int64_t* counts, __grid_constant__ const Sink sink) {
  device::GridDependencyWait();
  __shared__ int warps[kWarps];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kChunk;
  int64_t before = counts[blockIdx.x];
  if (before == counts[blockIdx.x + 1]) return;  // the same for the whole block
  for (int64_t round = first; round < first + kChunk && round < elements.elems; round += kThreads) {
    const int64_t i = round + threadIdx.x;
    const bool selected = elements.IsSelected(i);
    int found = 0;
    const int rank = RankInBlock<kThreads>(selected, warps, &found);
    if (selected) sink.Write(before + rank, i);
    before += found;
  }
}

device::LaunchConfig Config(int64_t blocks) {
  return {.grid = {static_cast<unsigned>(blocks)}, .block = {kThreads}, .programmatic = true};
}

// Calls `visit(Elements<Word>)` for the words that hold the plan's elements.
template <class Visitor>
Status VisitElements(const SelectPlan& plan, const void* x, Visitor&& visit) {
  const auto words = [&]<class Word>(Word all) {
    const bool is_float = kFloatTypes.Contains(plan.type);
    return visit(Elements<Word>{static_cast<const Word*>(x), static_cast<Word>(is_float ? all >> 1 : all), plan.elems});
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
  return {.type = type, .elems = elems, .chunks = CeilDiv(elems, kChunk)};
}

Status LaunchCountNonZero(const SelectPlan& plan, const void* x, int64_t* counts, device::Stream stream) {
  if (plan.chunks != 0) {
    CUDAEP_RETURN_IF_ERROR(VisitElements(plan, x, [&]<class Word>(Elements<Word> elements) {
      return device::Launch(CountKernel<Word>, Config(plan.chunks), stream, elements, counts);
    }));
  }
  return device::Launch(ScanKernel, Config(1), stream, counts, plan.chunks);
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
  CoordinateSink sink{out, total, static_cast<int>(dims.size()), {}};
  std::copy(dims.begin(), dims.end(), sink.size);
  return VisitElements(plan, x, [&]<class Word>(Elements<Word> elements) {
    return device::Launch(WriteKernel<Word, CoordinateSink>, Config(plan.chunks), stream, elements, counts, sink);
  });
}

}  // namespace cudaep::kernels
