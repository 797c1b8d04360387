#include "kernels/movement/copy_kernel.cuh"
#include "kernels/movement/trilu.h"

namespace cudaep::kernels {
namespace {

template <class Index>
struct TriangleView {
  IndexDivider<Index> columns, rows;
  int64_t k;
  int64_t upper;
};

// Packs of the output and the input lie alike, so a thread reads what it writes over, and reads no cleared packs.
template <class Unit, class Index, int kPack>
__global__ void __launch_bounds__(kCopyThreads)
    TriluKernel(__grid_constant__ const TriangleView<Index> view, const Unit* in, Unit* out, Index units) {
  device::GridDependencyWait();
  const Index begin = (static_cast<Index>(blockIdx.x) * kCopyThreads + threadIdx.x) * kPack;
  if (begin >= units) return;
  Index column, row;
  view.rows.DivideWithRemainder(view.columns.DivideWithRemainder(begin, &column), &row);
  bool keep[kPack];
  bool any = false;
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    const int64_t diagonal = static_cast<int64_t>(column) - static_cast<int64_t>(row);
    keep[i] = view.upper != 0 ? diagonal >= view.k : diagonal <= view.k;
    any = any || keep[i];
    if (++column == view.columns.divisor) {
      column = 0;
      if (++row == view.rows.divisor) row = 0;
    }
  }
  if (begin + kPack <= units) {
    Pack<Unit, kPack> pack{};
    if (any) pack = LoadPack<kPack>(in + begin);
#pragma unroll
    for (int i = 0; i < kPack; ++i) pack.value[i] = keep[i] ? pack.value[i] : Unit{};
    StorePack<kPack>(out + begin, pack);
  } else {
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      if (begin + i < units) out[begin + i] = keep[i] ? in[begin + i] : Unit{};
    }
  }
}

template <class Unit, class Index, int kPack>
Status LaunchPacks(const Triangle& triangle, int64_t units, const void* in, void* out, device::Stream stream) {
  const TriangleView<Index> view{IndexDivider<Index>(triangle.columns), IndexDivider<Index>(triangle.rows), triangle.k,
                                 triangle.upper};
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(units, int64_t{kPack} * kCopyThreads));
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
      if (FitsIndex(units) && alignment == kPackBytes) {
        return LaunchPacks<Unit, uint32_t, kPack>(triangle, units, in, out, stream);
      }
    }
    return LaunchPacks<Unit, uint64_t, 1>(triangle, units, in, out, stream);
  });
}

}  // namespace cudaep::kernels
