#include "kernels/generate/range.h"
#include "kernels/movement/copy_kernel.cuh"

namespace cudaep::kernels {
namespace {

template <class Unit, class Wide>
struct RangeSource {
  Wide start, delta;

  struct Cursor {
    Unit value;
    uint64_t index;
    int64_t row_left;

    __device__ __forceinline__ Unit Load() const { return value; }
    __device__ __forceinline__ void Step(const RangeSource& source) { *this = source.At(index + 1); }
    __device__ __forceinline__ void Next(const RangeSource& source) { Step(source); }
  };
  template <class Index>
  __device__ __forceinline__ Cursor At(Index i) const {
    const auto value = static_cast<ComputeType<Unit>>(start + static_cast<Wide>(i) * delta);
    return {Store<Unit>(value), static_cast<uint64_t>(i), INT64_MAX};
  }
};

template <class Unit, class Wide>
Status LaunchOf(Wide start, Wide delta, int64_t count, void* out, device::Stream stream) {
  const RangeSource<Unit, Wide> source{start, delta};
  if (FitsIndex(count)) {
    return LaunchCopy<CopyVariant<Unit, uint32_t, PackElems(sizeof(Unit))>>(source, out, count, stream);
  }
  return LaunchCopy<CopyVariant<Unit, uint64_t, 1>>(source, out, count, stream);
}

}  // namespace

Status LaunchRange(const RangeValues& range, void* out, device::Stream stream) {
  if (range.count == 0) return Status::Ok();
  const uint64_t start = range.integer_start, delta = range.integer_delta;
  switch (range.type) {
    case DataType::kFloat16:
      return LaunchOf<Half>(range.start, range.delta, range.count, out, stream);
    case DataType::kBFloat16:
      return LaunchOf<BFloat16>(range.start, range.delta, range.count, out, stream);
    case DataType::kFloat:
      return LaunchOf<float>(range.start, range.delta, range.count, out, stream);
    case DataType::kDouble:
      return LaunchOf<double>(range.start, range.delta, range.count, out, stream);
    case DataType::kInt16:
      return LaunchOf<uint16_t>(start, delta, range.count, out, stream);
    case DataType::kInt32:
      return LaunchOf<uint32_t>(start, delta, range.count, out, stream);
    case DataType::kInt64:
      return LaunchOf<uint64_t>(start, delta, range.count, out, stream);
    default:
      return NotSupported("element type ", DataTypeName(range.type));
  }
}

}  // namespace cudaep::kernels
