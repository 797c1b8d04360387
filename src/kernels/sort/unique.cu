#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "kernels/sort/order_key.cuh"
#include "kernels/sort/unique.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;

device::LaunchConfig Config(int64_t threads) {
  return {
      .grid = {static_cast<unsigned>(CeilDiv<int64_t>(threads, kThreads))}, .block = {kThreads}, .programmatic = true};
}

__device__ __forceinline__ int64_t ThreadNumber() { return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; }

// Items become rows of keys, one behind another.
template <class T>
__global__ void __launch_bounds__(kThreads)
    KeyKernel(__grid_constant__ const Unique unique, const T* x, typename KeyOf<T>::Word* keys) {
  device::GridDependencyWait();
  const int64_t i = ThreadNumber();
  if (i >= unique.outer * unique.items * unique.inner) return;
  const int64_t row = i / unique.inner, inner = i - row * unique.inner;
  const int64_t outer = row / unique.items, item = row - outer * unique.items;
  keys[(item * unique.outer + outer) * unique.inner + inner] = KeyOf<T>::Make(x[i]);
}

template <class Word>
__global__ void __launch_bounds__(kThreads)
    HeadKernel(const Word* keys, int64_t row_words, int64_t items, const int64_t* order, uint8_t* flags) {
  device::GridDependencyWait();
  const int64_t i = ThreadNumber();
  if (i >= items) return;
  bool differs = i == 0;
  for (int64_t k = 0; k < row_words && !differs; ++k) {
    differs = keys[order[i] * row_words + k] != keys[order[i - 1] * row_words + k];
  }
  flags[i] = differs ? 1 : 0;
}

// Equal items keep their order, so that the first of a group is the first there is.
__global__ void __launch_bounds__(kThreads)
    FirstKernel(const int64_t* order, const int64_t* heads, int64_t groups, int64_t* firsts, uint8_t* flags) {
  device::GridDependencyWait();
  const int64_t group = ThreadNumber();
  if (group >= groups) return;
  const int64_t first = order[heads[group]];
  if (flags != nullptr) {
    flags[first] = 1;
  } else {
    firsts[group] = first;
  }
}

// How many of the ascending `numbers` are at most `limit`.
__device__ __forceinline__ int64_t CountUpTo(const int64_t* numbers, int64_t count, int64_t limit) {
  int64_t low = 0, high = count;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (numbers[middle] <= limit) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

__global__ void __launch_bounds__(kThreads)
    NumberKernel(__grid_constant__ const UniqueScratch scratch, int64_t items, int64_t groups, int64_t sorted,
                 int64_t* inverse, int64_t* sizes) {
  device::GridDependencyWait();
  const int64_t place = ThreadNumber();
  if (place >= items) return;
  const int64_t group = CountUpTo(scratch.heads, groups, place) - 1;
  const int64_t head = scratch.heads[group];
  const int64_t number = sorted != 0 ? group : CountUpTo(scratch.firsts, groups, scratch.order[head]) - 1;
  if (inverse != nullptr) inverse[scratch.order[place]] = number;
  if (sizes != nullptr && place == head) sizes[number] = (group + 1 < groups ? scratch.heads[group + 1] : items) - head;
}

}  // namespace

Status LaunchGroup(const Unique& unique, const void* x, const UniqueScratch& scratch, device::Stream stream) {
  if (unique.items != 0) {
    const Status refused = NotSupported("element type ", DataTypeName(unique.type));
    const RowSort sort = unique.sort();
    if (sort.row_words != 0) {
      CUDAEP_RETURN_IF_ERROR(VisitType<kUniqueTypes>(unique.type, refused, [&]<class T>() {
        return device::Launch(KeyKernel<T>, Config(unique.items * sort.row_words), stream, unique,
                              static_cast<const T*>(x), static_cast<typename KeyOf<T>::Word*>(scratch.keys));
      }));
    }
    CUDAEP_RETURN_IF_ERROR(LaunchSortRows(sort, scratch.keys, scratch.order, scratch.heads, stream));
    const auto find_heads = [&]<class Word>() {
      return device::Launch(HeadKernel<Word>, Config(unique.items), stream, static_cast<const Word*>(scratch.keys),
                            sort.row_words, unique.items, scratch.order, scratch.flags);
    };
    switch (sort.word_bytes) {
      case 1:
        CUDAEP_RETURN_IF_ERROR(find_heads.template operator()<uint8_t>());
        break;
      case 2:
        CUDAEP_RETURN_IF_ERROR(find_heads.template operator()<uint16_t>());
        break;
      case 4:
        CUDAEP_RETURN_IF_ERROR(find_heads.template operator()<uint32_t>());
        break;
      default:
        CUDAEP_RETURN_IF_ERROR(find_heads.template operator()<uint64_t>());
    }
  }
  const SelectPlan select = unique.select();
  CUDAEP_RETURN_IF_ERROR(LaunchCountNonZero(select, scratch.flags, scratch.counts, stream));
  return LaunchWritePositions(select, scratch.flags, scratch.counts, scratch.heads, stream);
}

Status LaunchFirsts(const Unique& unique, int64_t groups, bool sorted, const UniqueScratch& scratch,
                    device::Stream stream) {
  if (groups == 0) return Status::Ok();
  if (!sorted) {
    CUDAEP_RETURN_IF_ERROR(device::MemsetAsync(scratch.flags, 0, static_cast<size_t>(unique.items), stream));
  }
  CUDAEP_RETURN_IF_ERROR(device::Launch(FirstKernel, Config(groups), stream, scratch.order, scratch.heads, groups,
                                        scratch.firsts, sorted ? nullptr : scratch.flags));
  if (sorted) return Status::Ok();
  const SelectPlan select = unique.select();
  CUDAEP_RETURN_IF_ERROR(LaunchCountNonZero(select, scratch.flags, scratch.counts, stream));
  return LaunchWritePositions(select, scratch.flags, scratch.counts, scratch.firsts, stream);
}

Status LaunchUniqueNumbers(const Unique& unique, int64_t groups, bool sorted, const UniqueScratch& scratch,
                           int64_t* inverse, int64_t* sizes, device::Stream stream) {
  if (unique.items == 0 || (inverse == nullptr && sizes == nullptr)) return Status::Ok();
  return device::Launch(NumberKernel, Config(unique.items), stream, scratch, unique.items, groups,
                        int64_t{sorted ? 1 : 0}, inverse, sizes);
}

}  // namespace cudaep::kernels
