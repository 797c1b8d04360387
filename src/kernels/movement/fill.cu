#include <cstring>

#include "kernels/movement/copy_kernel.cuh"
#include "kernels/movement/fill.h"

namespace cudaep::kernels {
namespace {

template <class Unit>
struct ConstantSource {
  Unit unit;

  struct Cursor {
    Unit unit;
    int64_t row_left;

    __device__ __forceinline__ Unit Load() const { return unit; }
    __device__ __forceinline__ void Step(const ConstantSource&) {}
    __device__ __forceinline__ void Next(const ConstantSource&) {}
  };
  template <class Index>
  __device__ __forceinline__ Cursor At(Index) const {
    return {unit, INT64_MAX};
  }
};

}  // namespace

Status LaunchFill(const void* element, size_t elem_bytes, int64_t elems, void* out, device::Stream stream) {
  if (elems == 0) return Status::Ok();
  return VisitCopyVariant(static_cast<int>(elem_bytes), WidestUnit(out), elems, [&]<class Variant>(Variant) {
    using Unit = typename Variant::Unit;
    ConstantSource<Unit> source;
    std::memcpy(&source.unit, element, sizeof(Unit));
    return LaunchCopy<Variant>(source, out, elems, stream);
  });
}

}  // namespace cudaep::kernels
