#include "kernels/movement/strided_source.cuh"

namespace cudaep::kernels {

Status LaunchStridedCopy(const StridedCopy& copy, const void* in, void* out, device::Stream stream) {
  if (copy.units == 0) return Status::Ok();
  const int alignment = std::min(WidestUnit(in), WidestUnit(out));
  const int bytes = std::max(copy.unit_bytes, std::min(copy.widest_bytes, alignment));
  const int64_t factor = bytes / copy.unit_bytes;
  const int64_t units = copy.units / factor;
  return VisitCopyVariant(bytes, alignment, units, [&]<class Variant>(Variant) {
    using Unit = typename Variant::Unit;
    using Index = typename Variant::Index;
    const StridedSource<Unit, Index> source{static_cast<const Unit*>(in) + copy.offset / factor,
                                            MakeStridedView<Index>(copy, factor)};
    return LaunchCopy<Variant>(source, out, units, stream);
  });
}

}  // namespace cudaep::kernels
