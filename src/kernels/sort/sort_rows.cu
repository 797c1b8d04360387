#include <utility>

#include "core/checked_math.h"
#include "device/launch.h"
#include "kernels/sort/sort_rows.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 4 * kThreads;  // rows of a block

template <class Word>
struct Rows {
  const Word* words;
  int64_t row_words;

  __device__ __forceinline__ bool Less(int64_t a, int64_t b) const {
    for (int64_t i = 0; i < row_words; ++i) {
      const Word left = words[a * row_words + i], right = words[b * row_words + i];
      if (left != right) return left < right;
    }
    return false;
  }
};

// Where entry i of `from`, sorted in runs of `run` entries, goes when pairs of runs are merged. Entries are rows
// counted from `first`. Those of the left run come before equal ones of the right.
template <class Word, class Entry>
__device__ __forceinline__ int64_t MergedPlace(const Rows<Word>& rows, const Entry* from, int64_t count, int64_t run,
                                               int64_t first, int64_t i) {
  const int64_t pair = i / (2 * run) * (2 * run);
  const int64_t middle = device::Min(pair + run, count), end = device::Min(pair + 2 * run, count);
  const bool is_left = i < middle;
  const int64_t row = first + from[i];
  int64_t low = is_left ? middle : pair, high = is_left ? end : middle;
  const int64_t other = low;
  while (low < high) {  // the first of the other run that comes behind this row
    const int64_t at = low + (high - low) / 2;
    const int64_t candidate = first + from[at];
    const bool before = is_left ? rows.Less(candidate, row) : !rows.Less(row, candidate);
    if (before) {
      low = at + 1;
    } else {
      high = at;
    }
  }
  return i + (low - other) - (is_left ? 0 : middle - pair);
}

template <class Word>
__global__ void __launch_bounds__(kThreads) TileKernel(Rows<Word> rows, int64_t count, int64_t* order) {
  device::GridDependencyWait();
  __shared__ uint16_t buffers[2][kTile];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t mine = device::Min<int64_t>(count - first, kTile);
  uint16_t *from = buffers[0], *to = buffers[1];
  for (int i = static_cast<int>(threadIdx.x); i < mine; i += kThreads) from[i] = static_cast<uint16_t>(i);
  __syncthreads();
  for (int64_t run = 1; run < mine; run *= 2) {
    for (int i = static_cast<int>(threadIdx.x); i < mine; i += kThreads) {
      to[MergedPlace(rows, from, mine, run, first, i)] = from[i];
    }
    __syncthreads();
    uint16_t* const sorted = to;
    to = from;
    from = sorted;
  }
  for (int i = static_cast<int>(threadIdx.x); i < mine; i += kThreads) order[first + i] = first + from[i];
}

template <class Word>
__global__ void __launch_bounds__(kThreads)
    MergeKernel(Rows<Word> rows, int64_t count, int64_t run, const int64_t* from, int64_t* to) {
  device::GridDependencyWait();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) to[MergedPlace(rows, from, count, run, 0, i)] = from[i];
}

device::LaunchConfig Config(int64_t blocks) {
  return {.grid = {static_cast<unsigned>(blocks)}, .block = {kThreads}, .programmatic = true};
}

template <class Word>
Status LaunchWords(const RowSort& sort, const void* words, int64_t* order, int64_t* scratch, device::Stream stream) {
  const Rows<Word> rows{static_cast<const Word*>(words), sort.row_words};
  int merges = 0;
  for (int64_t run = kTile; run < sort.rows; run *= 2) ++merges;
  int64_t* from = merges % 2 == 0 ? order : scratch;
  int64_t* to = merges % 2 == 0 ? scratch : order;
  CUDAEP_RETURN_IF_ERROR(
      device::Launch(TileKernel<Word>, Config(CeilDiv<int64_t>(sort.rows, kTile)), stream, rows, sort.rows, from));
  for (int64_t run = kTile; run < sort.rows; run *= 2) {
    CUDAEP_RETURN_IF_ERROR(device::Launch(MergeKernel<Word>, Config(CeilDiv<int64_t>(sort.rows, kThreads)), stream,
                                          rows, sort.rows, run, from, to));
    std::swap(from, to);
  }
  return Status::Ok();
}

}  // namespace

Status LaunchSortRows(const RowSort& sort, const void* words, int64_t* order, void* scratch, device::Stream stream) {
  if (sort.rows == 0) return Status::Ok();
  auto* const other = static_cast<int64_t*>(scratch);
  switch (sort.word_bytes) {
    case 1:
      return LaunchWords<uint8_t>(sort, words, order, other, stream);
    case 2:
      return LaunchWords<uint16_t>(sort, words, order, other, stream);
    case 4:
      return LaunchWords<uint32_t>(sort, words, order, other, stream);
    default:
      return LaunchWords<uint64_t>(sort, words, order, other, stream);
  }
}

}  // namespace cudaep::kernels
