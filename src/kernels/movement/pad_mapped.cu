#include "kernels/movement/pad_source.cuh"

namespace cudaep::kernels {
namespace {

// The position of the input that stands at `position`, which may be anywhere, of `size` positions.
__device__ __forceinline__ int64_t MapPosition(int64_t position, int64_t size, PadMode mode) {
  if (position >= 0 && position < size) return position;
  if (mode == PadMode::kEdge) return position < 0 ? 0 : size - 1;
  if (mode == PadMode::kWrap) {
    const int64_t rest = position % size;
    return rest < 0 ? rest + size : rest;
  }
  if (size == 1) return 0;
  const int64_t period = 2 * (size - 1);
  const int64_t rest = (position < 0 ? -position : position) % period;
  return rest < size ? rest : period - rest;
}

template <class Unit, class Index>
struct MappedPadSource {
  const Unit* in;
  PadMode mode;
  PadView<Index> view;

  struct Cursor {
    const Unit* row;
    int64_t column;  // in the input, may be outside
    int64_t columns;
    PadMode mode;
    Index index;
    Index row_left;

    __device__ __forceinline__ Unit Load() const { return row[MapPosition(column, columns, mode)]; }
    __device__ __forceinline__ void Step(const MappedPadSource&) { ++column; }
    __device__ __forceinline__ void Next(const MappedPadSource& source) {
      ++index;
      if (--row_left != 0) {
        Step(source);
      } else {
        *this = source.At(index);
      }
    }
  };
  __device__ __forceinline__ Cursor At(Index i) const {
    Index coordinate = i, rest = 0;
    if (view.rank > 1) rest = view.out[0].DivideWithRemainder(i, &coordinate);
    Cursor cursor{in, static_cast<int64_t>(coordinate) - view.begin[0],    view.in[0], mode,
                  i,  static_cast<Index>(view.out[0].divisor) - coordinate};
    for (int d = 1; d < view.rank; ++d) {
      coordinate = rest;
      if (d + 1 < view.rank) rest = view.out[d].DivideWithRemainder(rest, &coordinate);
      cursor.row += MapPosition(static_cast<int64_t>(coordinate) - view.begin[d], view.in[d], mode) * view.stride[d];
    }
    return cursor;
  }
};

}  // namespace

Status LaunchPadMapped(const PadCopy& pad, PadUnit unit, const void* in, void* out, device::Stream stream) {
  const int64_t factor = unit.bytes / pad.elem_bytes;
  return VisitCopyVariant(unit.bytes, unit.alignment, pad.elems / factor, [&]<class Variant>(Variant) {
    using Unit = typename Variant::Unit;
    using Index = typename Variant::Index;
    const MappedPadSource<Unit, Index> source{static_cast<const Unit*>(in) + pad.offset / factor, pad.mode,
                                              MakePadView<Index>(pad, factor)};
    return LaunchCopy<Variant>(source, out, pad.elems / factor, stream);
  });
}

}  // namespace cudaep::kernels
