#include "kernels/movement/copy_kernel.cuh"
#include "kernels/movement/rolled_copy.h"

namespace cudaep::kernels {
namespace rolled {

template <class Index>
struct TargetAtom {
  IndexDivider<Index> behind, size;
  Index inner = 1;
};
template <class Index>
struct SourceAtom {
  IndexDivider<Index> inner;
  int64_t stride = 1;
};
template <class Index>
struct Axis {
  Index size = 1, shift = 0;
  int targets_end = 0, sources_end = 0;
};

template <class Unit, class Index>
struct RolledSource {
  static constexpr bool kLocatesAhead = true;

  const Unit* in;
  int axes;
  IndexDivider<Index> run;  // of units
  Axis<Index> axis[kMostRolledAxes];
  TargetAtom<Index> target[kMostRolledAtoms];
  SourceAtom<Index> source[kMostRolledAtoms];

  struct Cursor {
    const Unit* pointer;
    Index index;
    Index row_left;

    __device__ __forceinline__ Unit Load() const { return *pointer; }
    __device__ __forceinline__ void Step(const RolledSource&) { ++pointer; }
    __device__ __forceinline__ void Next(const RolledSource& from) {
      ++index;
      if (--row_left != 0) {
        Step(from);
      } else {
        *this = from.At(index);
      }
    }
  };
  __device__ __forceinline__ Cursor At(Index i) const {
    int64_t offset = 0;
    int t = 0, s = 0;
#pragma unroll 1
    for (int a = 0; a < axes; ++a) {
      Index position = axis[a].shift, rest = 0;
#pragma unroll 1
      for (; t < axis[a].targets_end; ++t) {
        Index coordinate = 0;
        target[t].size.DivideWithRemainder(target[t].behind.DivideWithRemainder(i, &rest), &coordinate);
        position += coordinate * target[t].inner;
      }
      if (position >= axis[a].size) position -= axis[a].size;
#pragma unroll 1
      for (; s < axis[a].sources_end; ++s) {
        const Index at = source[s].inner.DivideWithRemainder(position, &rest);
        offset += static_cast<int64_t>(at) * source[s].stride;
        position = rest;
      }
    }
    Index within = 0;
    run.DivideWithRemainder(i, &within);
    return {in + offset, i, static_cast<Index>(run.divisor) - within};
  }
};

// In units of `factor` elements, of which the last atoms of the last axis consist.
template <class Unit, class Index>
RolledSource<Unit, Index> MakeSource(const RolledCopy& copy, const void* in, int64_t factor) {
  RolledSource<Unit, Index> made{.in = static_cast<const Unit*>(in),
                                 .axes = copy.axes,
                                 .run = IndexDivider<Index>(copy.run / factor),
                                 .axis = {},
                                 .target = {},
                                 .source = {}};
  for (int a = 0; a < copy.axes; ++a) {
    const RolledAxis& axis = copy.axis[a];
    const bool is_last = a + 1 == copy.axes;
    const int64_t share = is_last ? factor : 1;  // of the axis
    const int targets_end = axis.first_target + axis.targets, sources_end = axis.first_source + axis.sources;
    made.axis[a] = {static_cast<Index>(axis.size / share), static_cast<Index>(axis.shift / share), targets_end,
                    sources_end};
    for (int t = axis.first_target; t < targets_end; ++t) {
      const bool ends = is_last && t + 1 == targets_end;
      const RolledAtom& atom = copy.target[t];
      made.target[t] = {IndexDivider<Index>(std::max<int64_t>(atom.behind / factor, 1)),
                        IndexDivider<Index>(ends ? atom.size / factor : atom.size),
                        static_cast<Index>(ends ? 1 : atom.inner / share)};
    }
    for (int s = axis.first_source; s < sources_end; ++s) {
      const bool ends = is_last && s + 1 == sources_end;
      const RolledAtom& atom = copy.source[s];
      made.source[s] = {IndexDivider<Index>(ends ? 1 : atom.inner / share), ends ? atom.stride : atom.stride / factor};
    }
  }
  return made;
}

}  // namespace rolled

Status LaunchRolledCopy(const RolledCopy& copy, const void* in, void* out, device::Stream stream) {
  if (copy.elems == 0) return Status::Ok();
  const int alignment = std::min(WidestUnit(in), WidestUnit(out));
  const int bytes = std::max(copy.elem_bytes, std::min(copy.widest_bytes, alignment));
  const int64_t factor = bytes / copy.elem_bytes, units = copy.elems / factor;
  return VisitCopyVariant(bytes, alignment, units, [&]<class Variant>(Variant) {
    const auto source = rolled::MakeSource<typename Variant::Unit, typename Variant::Index>(copy, in, factor);
    return LaunchCopy<Variant>(source, out, units, stream);
  });
}

}  // namespace cudaep::kernels
