#include <bit>

#include "kernels/movement/copy_kernel.cuh"
#include "kernels/movement/trilu.h"

namespace cudaep::kernels {
namespace {

template <class Index>
struct TriangleView {
  using Signed = std::make_signed_t<Index>;
  IndexDivider<Index> columns, rows;
  Signed k;  // as far from the main diagonal as there are elements
  bool upper;

  // Bit i is set where element i of the pack that starts at `begin` is kept.
  template <int kPack>
  __device__ __forceinline__ unsigned Kept(Index begin) const {
    constexpr unsigned kAll = (1u << kPack) - 1;
    Index column, row;
    rows.DivideWithRemainder(columns.DivideWithRemainder(begin, &column), &row);
    if (column + kPack <= columns.divisor) {
      // An upper row begins at this element of the pack, a lower one ends in front of the next.
      const Signed diagonal = static_cast<Signed>(row) - static_cast<Signed>(column) + k + (upper ? 0 : 1);
      const unsigned below = (1u << device::Min<Signed>(device::Max<Signed>(diagonal, 0), kPack)) - 1;
      return upper ? kAll & ~below : below;
    }
    unsigned kept = 0;
    for (int i = 0; i < kPack; ++i) {
      const Signed diagonal = static_cast<Signed>(column) - static_cast<Signed>(row);
      if (upper ? diagonal >= k : diagonal <= k) kept |= 1u << i;
      if (++column == columns.divisor) {
        column = 0;
        if (++row == rows.divisor) row = 0;
      }
    }
    return kept;
  }
};

// Packs of the output and the input lie alike, so a thread reads what it writes over, and reads no cleared packs.
template <class Unit, class Index, int kPack>
__global__ void __launch_bounds__(kCopyThreads)
    TriluKernel(__grid_constant__ const TriangleView<Index> view, const Unit* in, Unit* out, Index units) {
  using Elements = Pack<Unit, kPack>;
  using Whole = std::conditional_t<sizeof(Elements) == kPackBytes && !kIsSplit<Unit>, Unit16, Elements>;
  constexpr unsigned kAll = (1u << kPack) - 1;
  device::GridDependencyWait();
  const Index thread = static_cast<Index>(blockIdx.x) * kCopyThreads * kCopyPacks + threadIdx.x;
  const auto begin_of = [&](unsigned j) { return (thread + j * kCopyThreads) * kPack; };
  Whole pack[kCopyPacks];
  unsigned kept[kCopyPacks];
#pragma unroll
  for (unsigned j = 0; j < kCopyPacks; ++j) {
    pack[j] = Whole{};
    kept[j] = begin_of(j) < units ? view.template Kept<kPack>(begin_of(j)) : 0;
    if (kept[j] != 0 && begin_of(j) + kPack <= units) pack[j] = *reinterpret_cast<const Whole*>(in + begin_of(j));
  }
#pragma unroll
  for (unsigned j = 0; j < kCopyPacks; ++j) {
    const Index begin = begin_of(j);
    if (begin >= units) continue;
    if (begin + kPack > units) {
      for (Index i = 0; begin + i < units; ++i) out[begin + i] = (kept[j] >> i & 1) != 0 ? in[begin + i] : Unit{};
      continue;
    }
    if (kept[j] != 0 && kept[j] != kAll) {
      Elements elements = std::bit_cast<Elements>(pack[j]);
#pragma unroll
      for (int i = 0; i < kPack; ++i) elements.value[i] = (kept[j] >> i & 1) != 0 ? elements.value[i] : Unit{};
      pack[j] = std::bit_cast<Whole>(elements);
    }
    *reinterpret_cast<Whole*>(out + begin) = pack[j];
  }
}

template <class Unit, class Index, int kPack>
Status LaunchPacks(const Triangle& triangle, int64_t units, const void* in, void* out, device::Stream stream) {
  const int64_t k = std::clamp(triangle.k, -triangle.rows, triangle.columns);
  const TriangleView<Index> view{IndexDivider<Index>(triangle.columns), IndexDivider<Index>(triangle.rows),
                                 static_cast<std::make_signed_t<Index>>(k), triangle.upper != 0};
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(units, int64_t{kPack} * kCopyPacks * kCopyThreads));
  config.block.x = kCopyThreads;
  config.programmatic = true;
  return device::Launch(TriluKernel<Unit, Index, kPack>, config, stream, view, static_cast<const Unit*>(in),
                        static_cast<Unit*>(out), static_cast<Index>(units));
}

}  // namespace

Status LaunchTrilu(const Triangle& triangle, size_t elem_bytes, const void* in, void* out, device::Stream stream) {
  const int64_t units = triangle.matrices * triangle.rows * triangle.columns;
  if (units == 0) return Status::Ok();
  const int alignment = std::min(WidestUnit(in), WidestUnit(out));
  return VisitUnit(static_cast<int>(elem_bytes), alignment, [&]<class Unit>() {
    if constexpr (!kIsSplit<Unit>) {
      constexpr int kPack = PackElems(sizeof(Unit));
      const bool fits = FitsIndex(units + kPack) && FitsIndex(triangle.rows + triangle.columns + 1);
      if (fits && alignment == kPackBytes) return LaunchPacks<Unit, uint32_t, kPack>(triangle, units, in, out, stream);
    }
    return LaunchPacks<Unit, uint64_t, 1>(triangle, units, in, out, stream);
  });
}

}  // namespace cudaep::kernels
