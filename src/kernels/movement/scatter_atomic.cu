#include "kernels/movement/scatter_target.cuh"

namespace cudaep::kernels {
namespace {

// Elements that atomic instructions can exchange.
constexpr DataTypeSet kAtomicTypes =
    kScatterReductionTypes - DataTypeSet{DataType::kInt8, DataType::kUint8, DataType::kBool};

template <class T>
using AtomicWord = std::conditional_t<sizeof(T) == 2, unsigned short,
                                      std::conditional_t<sizeof(T) == 4, unsigned, unsigned long long>>;

template <class T>
__device__ __forceinline__ void AtomicCombine(T* address, T update, ScatterReduction reduction) {
  if constexpr (sizeof(T) >= 4) {
    if (reduction == ScatterReduction::kAdd) {
      if constexpr (std::is_floating_point_v<T>) {
        atomicAdd(address, update);
      } else {
        atomicAdd(reinterpret_cast<AtomicWord<T>*>(address), static_cast<AtomicWord<T>>(update));
      }
      return;
    }
  }
  auto* const word = reinterpret_cast<AtomicWord<T>*>(address);
  AtomicWord<T> seen = *static_cast<volatile AtomicWord<T>*>(word);
  while (true) {
    const T combined = Store<T>(CombineUpdate(Load(std::bit_cast<T>(seen)), Load(update), reduction));
    const auto wanted = std::bit_cast<AtomicWord<T>>(combined);
    if (wanted == seen) return;  // a maximum that stays
    const AtomicWord<T> found = atomicCAS(word, seen, wanted);
    if (found == seen) return;
    seen = found;
  }
}

template <class T, class Index>
__global__ void __launch_bounds__(kScatterThreads)
    AtomicKernel(__grid_constant__ const ScatterTarget<Index> target, IndexDivider<Index> row, const T* updates, T* out,
                 Index elems, ScatterReduction reduction) {
  device::GridDependencyWait();
  const Index i = static_cast<Index>(blockIdx.x) * kScatterThreads + threadIdx.x;
  if (i >= elems) return;
  Index column;
  const Index update = row.DivideWithRemainder(i, &column);
  const T value = updates[i];
  const int64_t to = target.Row(update);
  if (to >= 0) AtomicCombine(out + to * static_cast<int64_t>(row.divisor) + column, value, reduction);
}

}  // namespace

Status LaunchScatterAtomic(const Scatter& scatter, const void* updates, void* out, device::Stream stream) {
  const int64_t elems = scatter.count * scatter.row_elems;
  const Status refused = NotSupported("atomic reduction of ", DataTypeName(scatter.type));
  return VisitType<kAtomicTypes>(scatter.type, refused, [&]<class T>() {
    const auto launch = [&]<class Index>() {
      return device::Launch(AtomicKernel<T, Index>, ScatterConfig(elems), stream, MakeScatterTarget<Index>(scatter),
                            IndexDivider<Index>(scatter.row_elems), static_cast<const T*>(updates),
                            static_cast<T*>(out), static_cast<Index>(elems), scatter.reduction);
    };
    return FitsIndex(elems) ? launch.template operator()<uint32_t>() : launch.template operator()<uint64_t>();
  });
}

}  // namespace cudaep::kernels
