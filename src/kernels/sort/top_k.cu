#include <algorithm>
#include <bit>
#include <limits>

#include "core/data_type_traits.h"
#include "device/launch.h"
#include "kernels/common/block_rank.cuh"
#include "kernels/sort/order_key.cuh"
#include "kernels/sort/top_k.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;
constexpr int64_t kMostBlocks = 4096;
constexpr int64_t kMostScratchBytes = int64_t{256} << 20;  // unless one block needs more

struct Entry {
  uint64_t key;  // ascending in the order of the result
  int64_t position;
};

__device__ __forceinline__ bool Before(const Entry& a, const Entry& b) {
  return a.key != b.key ? a.key < b.key : a.position < b.position;
}

struct Arguments {
  int64_t rows, axis, inner, k;
  int64_t padded;  // entries of a row's scratch: a power of two from k on
  int64_t largest, sorted;
};

template <class T>
struct Row {
  const T* x;
  int64_t stride;
  bool largest;

  // Small keys come first in the result.
  __device__ __forceinline__ typename KeyOf<T>::Word Key(int64_t i) const {
    const auto key = KeyOf<T>::Make(x[i * stride]);
    return largest ? static_cast<typename KeyOf<T>::Word>(~key) : key;
  }
};

// The key with rank k (from 1) in ascending order, and how many keys are below it.
template <class T>
__device__ uint64_t SelectKey(const Row<T>& row, int64_t axis, int64_t k, int64_t* below) {
  __shared__ unsigned counts[kDigits];
  __shared__ int64_t found_below;
  __shared__ unsigned found_digit;
  uint64_t prefix = 0;
  int64_t before = 0;
  for (int shift = KeyOf<T>::kBits - kDigitBits; shift >= 0; shift -= kDigitBits) {
    for (int i = static_cast<int>(threadIdx.x); i < kDigits; i += kThreads) counts[i] = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < axis; i += kThreads) {
      const uint64_t key = row.Key(i);
      const bool candidate = shift + kDigitBits == KeyOf<T>::kBits || (key >> (shift + kDigitBits)) == prefix;
      if (candidate) atomicAdd(&counts[(key >> shift) & (kDigits - 1)], 1u);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int64_t sum = before;
      unsigned digit = 0;
      while (sum + counts[digit] < k) sum += counts[digit++];
      found_below = sum;
      found_digit = digit;
    }
    __syncthreads();
    before = found_below;
    prefix = (prefix << kDigitBits) | found_digit;
    __syncthreads();
  }
  *below = before;
  return prefix;
}

// The k entries of the result in the order of their positions.
template <class T>
__device__ void Collect(const Row<T>& row, const Arguments& p, Entry* entries) {
  __shared__ int warps[kWarps];
  int64_t below = 0;
  const uint64_t border = SelectKey(row, p.axis, p.k, &below);
  const int64_t ties = p.k - below;  // equal to the border and in the result
  int64_t taken = 0, tied = 0;
  for (int64_t first = 0; first < p.axis && taken < p.k; first += kThreads) {
    const int64_t i = first + threadIdx.x;
    const uint64_t key = i < p.axis ? row.Key(i) : ~uint64_t{0};
    const bool equal = i < p.axis && key == border;
    int found = 0;
    const int tie = RankInBlock<kThreads>(equal, warps, &found);
    const bool selected = i < p.axis && (key < border || (equal && tied + tie < ties));
    tied += found;
    const int rank = RankInBlock<kThreads>(selected, warps, &found);
    if (selected) entries[taken + rank] = {key, i};
    taken += found;
  }
}

__device__ void Sort(Entry* entries, int64_t count, int64_t padded) {
  for (int64_t i = count + threadIdx.x; i < padded; i += kThreads) entries[i] = {~uint64_t{0}, INT64_MAX};
  __syncthreads();
  for (int64_t size = 2; size <= padded; size *= 2) {
    for (int64_t step = size / 2; step > 0; step /= 2) {
      for (int64_t i = threadIdx.x; i < padded / 2; i += kThreads) {
        const int64_t low = (i / step) * step * 2 + i % step, high = low + step;
        const bool ascending = (low & size) == 0;
        const Entry a = entries[low], b = entries[high];
        if (Before(b, a) == ascending) {
          entries[low] = b;
          entries[high] = a;
        }
      }
      __syncthreads();
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    TopKKernel(__grid_constant__ const Arguments p, const T* x, T* values, int64_t* positions, Entry* scratch) {
  device::GridDependencyWait();
  Entry* const entries = scratch + static_cast<int64_t>(blockIdx.x) * p.padded;
  for (int64_t number = blockIdx.x; number < p.rows; number += gridDim.x) {
    const int64_t outer = number / p.inner, inner = number - outer * p.inner;
    const Row<T> row{x + outer * p.axis * p.inner + inner, p.inner, p.largest != 0};
    Collect(row, p, entries);
    __syncthreads();
    if (p.sorted != 0) Sort(entries, p.k, p.padded);
    for (int64_t i = threadIdx.x; i < p.k; i += kThreads) {
      const int64_t at = (outer * p.k + i) * p.inner + inner;
      if (values != nullptr) values[at] = row.x[entries[i].position * row.stride];
      if (positions != nullptr) positions[at] = entries[i].position;
    }
    __syncthreads();
  }
}

int64_t PaddedOf(const TopK& problem) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(problem.k, 1))));
}

int64_t BlocksOf(const TopK& problem) {
  const int64_t bytes = PaddedOf(problem) * static_cast<int64_t>(sizeof(Entry));
  return std::min({problem.outer * problem.inner, kMostBlocks, std::max<int64_t>(kMostScratchBytes / bytes, 1)});
}

template <class T>
Status LaunchOf(const TopK& problem, const void* x, void* values, int64_t* positions, void* scratch,
                device::Stream stream) {
  const Arguments arguments{.rows = problem.outer * problem.inner,
                            .axis = problem.axis,
                            .inner = problem.inner,
                            .k = problem.k,
                            .padded = PaddedOf(problem),
                            .largest = problem.largest ? 1 : 0,
                            .sorted = problem.sorted ? 1 : 0};
  const device::LaunchConfig config{
      .grid = {static_cast<unsigned>(BlocksOf(problem))}, .block = {kThreads}, .programmatic = true};
  return device::Launch(TopKKernel<T>, config, stream, arguments, static_cast<const T*>(x), static_cast<T*>(values),
                        positions, static_cast<Entry*>(scratch));
}

}  // namespace

size_t TopK::scratch_bytes() const { return static_cast<size_t>(BlocksOf(*this) * PaddedOf(*this)) * sizeof(Entry); }

Status LaunchTopK(const TopK& problem, const void* x, void* values, int64_t* positions, void* scratch,
                  device::Stream stream) {
  if (problem.outer * problem.inner * problem.k == 0) return Status::Ok();
  using Launcher = Status (*)(const TopK&, const void*, void*, int64_t*, void*, device::Stream);
  const auto launch =
      VisitType<kTopKTypes>(problem.type, Launcher{nullptr}, []<class T>() -> Launcher { return &LaunchOf<T>; });
  if (launch == nullptr) return NotSupported("element type ", DataTypeName(problem.type));
  return launch(problem, x, values, positions, scratch, stream);
}

}  // namespace cudaep::kernels
