#include "kernels/movement/pad_source.cuh"

namespace cudaep::kernels {
namespace {

template <class Unit, class Index>
struct ConstantPadSource {
  const Unit* in;
  PadValue value;
  int elem_bytes;
  PadView<Index> view;
  Readable readable;

  struct Cursor {
    const Unit* row;  // its first unit that is in the input
    Index column;     // counted from there; wraps around before it
    Index columns;    // 0 in a row that is outside
    Unit constant;
    Index index;
    Index row_left;

    __device__ __forceinline__ Unit Load() const { return column < columns ? row[column] : constant; }
    __device__ __forceinline__ const Unit* Around(Index n) const {
      const bool any = columns != 0 && static_cast<Index>(column + (n - 1)) < columns + (n - 1);
      return any ? row + static_cast<std::make_signed_t<Index>>(column) : nullptr;
    }
    __device__ __forceinline__ bool Inside(Index n) const { return column < columns && columns - column >= n; }
    __device__ __forceinline__ void Prepare(const ConstantPadSource& source) {
      constant = Repeat<Unit>(source.value, source.elem_bytes);
    }
    __device__ __forceinline__ void Step(const ConstantPadSource&) { ++column; }
    __device__ __forceinline__ void Next(const ConstantPadSource& source) {
      ++index;
      if (--row_left != 0) {
        Step(source);
      } else {
        const Unit kept = constant;
        *this = source.At(index);
        constant = kept;
      }
    }
  };
  __device__ __forceinline__ Cursor At(Index i) const {
    Cursor cursor{};
    cursor.index = i;
    Index coordinate = i, rest = 0;
    if (view.rank > 1) rest = view.out[0].DivideWithRemainder(i, &coordinate);
    cursor.row_left = static_cast<Index>(view.out[0].divisor) - coordinate;
    cursor.column = coordinate - static_cast<Index>(view.begin[0]);
    cursor.columns = static_cast<Index>(view.in[0]);
    cursor.row = in;
#pragma unroll 1
    for (int d = 1; d < view.rank; ++d) {
      coordinate = rest;
      if (d + 1 < view.rank) rest = view.out[d].DivideWithRemainder(rest, &coordinate);
      const auto position = static_cast<std::make_signed_t<Index>>(coordinate) - view.begin[d];
      if (position < 0 || position >= view.in[d]) cursor.columns = 0;
      cursor.row += int64_t{position} * view.stride[d];
    }
    return cursor;
  }
};

}  // namespace

Status LaunchPadConstant(const PadCopy& pad, PadUnit unit, const void* in, PadValue value, void* out,
                         device::Stream stream) {
  const int64_t factor = unit.bytes / pad.elem_bytes;
  return VisitCopyVariant(unit.bytes, unit.alignment, pad.elems / factor, [&]<class Variant>(Variant) {
    using Unit = typename Variant::Unit;
    using Index = typename Variant::Index;
    const ConstantPadSource<Unit, Index> source{static_cast<const Unit*>(in) + pad.offset / factor, value,
                                                pad.elem_bytes, MakePadView<Index>(pad, factor), ReadablePad(pad, in)};
    return LaunchCopy<Variant>(source, out, pad.elems / factor, stream);
  });
}

Status LaunchPad(const PadCopy& pad, const void* in, PadValue value, void* out, device::Stream stream) {
  if (pad.elems == 0) return Status::Ok();
  const int alignment = std::min(WidestUnit(in), WidestUnit(out));
  const PadUnit unit{std::max(pad.elem_bytes, std::min(pad.widest_bytes, alignment)), alignment};
  if (PadsByRows(pad, unit, out)) return LaunchPadRows(pad, unit, in, value, out, stream);
  return pad.mode == PadMode::kConstant ? LaunchPadConstant(pad, unit, in, value, out, stream)
                                        : LaunchPadMapped(pad, unit, in, out, stream);
}

}  // namespace cudaep::kernels
