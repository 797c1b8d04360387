// The source of a copy of whole rows, each found by a function of its number.
#pragma once

#include "kernels/movement/copy_kernel.cuh"

namespace cudaep::kernels {

// `rows(i)` is the number of the row of `data` that becomes row i of the output; one of zeros where that is negative.
template <class Unit, class Index, class Rows>
struct MappedRowSource {
  const Unit* data;
  IndexDivider<Index> row;
  Rows rows;

  struct Cursor {
    const Unit* pointer;  // null inside a row of zeros
    Index index;
    Index row_left;

    __device__ __forceinline__ Unit Load() const { return pointer != nullptr ? *pointer : Unit{}; }
    __device__ __forceinline__ void Step(const MappedRowSource&) {
      if (pointer != nullptr) ++pointer;
    }
    __device__ __forceinline__ void Next(const MappedRowSource& source) {
      ++index;
      if (--row_left != 0) {
        Step(source);
      } else {
        *this = source.At(index);
      }
    }
  };
  __device__ __forceinline__ Cursor At(Index i) const {
    Index column;
    const Index number = row.DivideWithRemainder(i, &column);
    const int64_t found = rows(number);
    Cursor cursor{nullptr, i, static_cast<Index>(row.divisor) - column};
    if (found >= 0) cursor.pointer = data + found * static_cast<int64_t>(row.divisor) + column;
    return cursor;
  }
};

// Copies `rows` rows; `make.operator()<Index>()` gives the function.
template <class Make>
Status LaunchMappedRows(int64_t rows, int64_t row_bytes, const void* data, void* out, const Make& make,
                        device::Stream stream) {
  const int64_t bytes = rows * row_bytes;
  if (bytes == 0) return Status::Ok();
  const int unit_bytes = std::min({WidestUnit(row_bytes), WidestUnit(data), WidestUnit(out)});
  return VisitRowsVariant(unit_bytes, bytes / unit_bytes, row_bytes / unit_bytes, [&]<class Variant>(Variant) {
    using Unit = typename Variant::Unit;
    using Index = typename Variant::Index;
    const auto found = make.template operator()<Index>();
    const MappedRowSource<Unit, Index, std::remove_const_t<decltype(found)>> source{
        static_cast<const Unit*>(data), IndexDivider<Index>(row_bytes / unit_bytes), found};
    return LaunchCopy<Variant>(source, out, bytes / unit_bytes, stream);
  });
}

}  // namespace cudaep::kernels
