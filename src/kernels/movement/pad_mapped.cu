#include "kernels/movement/pad_source.cuh"

namespace cudaep::kernels {
namespace {

template <class Unit, class Index>
struct MappedPadSource {
  const Unit* in;
  PadMode mode;
  PadView<Index> view;
  Readable readable;
  using Coordinate = typename PadView<Index>::Coordinate;

  struct Cursor {
    const Unit* row;
    Coordinate column;  // in the input, may be outside
    Coordinate columns;
    PadMode mode;
    Index index;
    Index row_left;

    __device__ __forceinline__ Unit Load() const { return row[MapPosition(column, columns, mode)]; }
    __device__ __forceinline__ const Unit* Around(Index n) const {
      return column + static_cast<Coordinate>(n) > 0 && column < columns ? row + column : nullptr;
    }
    __device__ __forceinline__ bool Inside(Index n) const {
      return column >= 0 && columns - column >= static_cast<Coordinate>(n);
    }
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
    Cursor cursor{in, static_cast<Coordinate>(coordinate) - view.begin[0], view.in[0], mode,
                  i,  static_cast<Index>(view.out[0].divisor) - coordinate};
#pragma unroll 1
    for (int d = 1; d < view.rank; ++d) {
      coordinate = rest;
      if (d + 1 < view.rank) rest = view.out[d].DivideWithRemainder(rest, &coordinate);
      const Coordinate position = static_cast<Coordinate>(coordinate) - view.begin[d];
      cursor.row += int64_t{MapPosition(position, view.in[d], mode)} * view.stride[d];
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
                                              MakePadView<Index>(pad, factor), ReadablePad(pad, in)};
    return LaunchCopy<Variant>(source, out, pad.elems / factor, stream);
  });
}

}  // namespace cudaep::kernels
