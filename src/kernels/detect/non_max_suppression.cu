#include "device/rounded.h"
#include "kernels/detect/non_max_suppression.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// Overlaps are those of the CPU provider bit by bit.
struct Box {
  float x_low, y_low, x_high, y_high;
  __device__ __forceinline__ float Area() const { return device::RoundedProduct(x_high - x_low, y_high - y_low); }
};

__device__ __forceinline__ Box ReadBox(const float* at, bool center) {
  if (center) {
    const float half_width = at[2] / 2, half_height = at[3] / 2;
    return {at[0] - half_width, at[1] - half_height, at[0] + half_width, at[1] + half_height};
  }
  return {device::Min(at[1], at[3]), device::Min(at[0], at[2]), device::Max(at[1], at[3]), device::Max(at[0], at[2])};
}

__device__ __forceinline__ bool Suppresses(const Box& a, const Box& b, float most) {
  const float width = device::Min(a.x_high, b.x_high) - device::Max(a.x_low, b.x_low);
  const float height = device::Min(a.y_high, b.y_high) - device::Max(a.y_low, b.y_low);
  if (!(width > 0) || !(height > 0)) return false;
  const float common = device::RoundedProduct(width, height);
  const float all = a.Area() + b.Area() - common;
  if (common <= 0 || a.Area() <= 0 || b.Area() <= 0 || all <= 0) return false;
  return common / all > most;
}

// The first thread of the block with `alive`, or -1; the same for all. Begins with a barrier.
__device__ __forceinline__ int FirstAlive(bool alive, unsigned* words) {
  const unsigned ballot = __ballot_sync(device::kFullWarp, alive);
  __syncthreads();
  if (threadIdx.x % 32 == 0) words[threadIdx.x / 32] = ballot;
  __syncthreads();
  for (int warp = 0; warp < kWarps; ++warp) {
    if (words[warp] != 0) return warp * 32 + __ffs(static_cast<int>(words[warp])) - 1;
  }
  return -1;
}

__global__ void __launch_bounds__(kThreads)
    SuppressKernel(__grid_constant__ const NonMaxSuppression p, const float* boxes, const float* scores,
                   const int64_t* order, int32_t* kept, int64_t* counts) {
  device::GridDependencyWait();
  __shared__ unsigned words[kWarps];
  __shared__ Box pivot;
  for (int64_t row = blockIdx.x; row < p.rows(); row += gridDim.x) {
    const float* const row_boxes = boxes + row / p.classes * p.boxes * 4;
    const float* const row_scores = scores + row * p.boxes;
    int32_t* const row_kept = kept + row * p.most;
    int64_t count = 0;
    for (int64_t first = 0; first < p.boxes && count < p.most; first += kThreads) {
      const int64_t i = first + threadIdx.x;
      const int64_t position = i < p.boxes ? order[row * p.boxes + i] : 0;
      bool alive = i < p.boxes && (!p.has_threshold || row_scores[position] > p.score);
      const Box mine = ReadBox(row_boxes + position * 4, p.center);
      for (int64_t k = 0; alive && k < count; ++k) {
        alive = !Suppresses(mine, ReadBox(row_boxes + row_kept[k] * int64_t{4}, p.center), p.overlap);
      }
      for (;;) {
        const int best = FirstAlive(alive, words);
        if (best < 0 || count == p.most) break;
        if (static_cast<int>(threadIdx.x) == best) {
          row_kept[count] = static_cast<int32_t>(position);
          pivot = mine;
          alive = false;
        }
        ++count;
        __syncthreads();
        if (alive) alive = !Suppresses(mine, pivot, p.overlap);
      }
    }
    if (threadIdx.x == 0) {
      counts[row] = count;
      atomicAdd(reinterpret_cast<unsigned long long*>(&counts[p.rows()]), static_cast<unsigned long long>(count));
    }
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kThreads) WriteKernel(__grid_constant__ const NonMaxSuppression p,
                                                        const int32_t* kept, const int64_t* counts, int64_t* selected) {
  device::GridDependencyWait();
  __shared__ int64_t sums[kWarps];
  for (int64_t row = blockIdx.x; row < p.rows(); row += gridDim.x) {
    int64_t before = 0;
    for (int64_t i = threadIdx.x; i < row; i += kThreads) before += counts[i];
    before = device::WarpReduce(before, [](int64_t a, int64_t b) { return a + b; });
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = before;
    __syncthreads();
    before = 0;
    for (int warp = 0; warp < kWarps; ++warp) before += sums[warp];
    for (int64_t i = threadIdx.x; i < counts[row]; i += kThreads) {
      int64_t* const out = selected + (before + i) * 3;
      out[0] = row / p.classes, out[1] = row % p.classes, out[2] = kept[row * p.most + i];
    }
    __syncthreads();
  }
}

device::LaunchConfig Config(const NonMaxSuppression& problem) {
  constexpr int64_t kMostBlocks = 65536;
  const auto blocks = static_cast<unsigned>(problem.rows() < kMostBlocks ? problem.rows() : kMostBlocks);
  return {.grid = {blocks}, .block = {kThreads}, .programmatic = true};
}

}  // namespace

Status LaunchSuppress(const NonMaxSuppression& problem, const float* boxes, const float* scores, const int64_t* order,
                      int32_t* kept, int64_t* counts, device::Stream stream) {
  CUDAEP_RETURN_IF_ERROR(device::MemsetAsync(counts + problem.rows(), 0, sizeof(int64_t), stream));
  return device::Launch(SuppressKernel, Config(problem), stream, problem, boxes, scores, order, kept, counts);
}

Status LaunchWriteSelected(const NonMaxSuppression& problem, const int32_t* kept, const int64_t* counts,
                           int64_t* selected, device::Stream stream) {
  return device::Launch(WriteKernel, Config(problem), stream, problem, kept, counts, selected);
}

}  // namespace cudaep::kernels
