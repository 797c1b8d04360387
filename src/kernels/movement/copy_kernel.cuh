// The one gathering copy: out[i] = source(i), for any source and any width of unit.
//
// A thread fills one pack of consecutive units, 16 bytes, so that writes are full whatever the source does. Elements
// are moved as units of 1 to 16 bytes: a launcher takes the widest that sizes, strides and addresses allow. Variants
// are 16-byte packs with 32-bit indices and single units with 64-bit indices, for each of the five widths.
//
// A source is a struct passed by value; At(i) gives a cursor to unit i. The cursor has Load(); row_left, the units to
// the end of its row; Step(source), to the next unit of the row; and Next(source), to the next unit wherever that is.
// None is called for units past the end.
#pragma once

#include <algorithm>

#include "core/checked_math.h"
#include "device/launch.h"
#include "kernels/fast_divide.h"
#include "kernels/index_limit.h"
#include "kernels/pack.h"

namespace cudaep::kernels {

inline constexpr int kCopyThreads = 256;

using Unit16 = Pack<uint64_t, 2>;

// Division of an index by a divisor known before the launch.
template <class Index>
struct IndexDivider;
template <>
struct IndexDivider<uint32_t> : FastDivider {
  IndexDivider() = default;
  explicit IndexDivider(int64_t d) : FastDivider(static_cast<uint32_t>(d)) {}
};
template <>
struct IndexDivider<uint64_t> {
  uint64_t divisor = 1;
  IndexDivider() = default;
  explicit IndexDivider(int64_t d) : divisor(static_cast<uint64_t>(d)) {}
  CUDAEP_HOST_DEVICE uint64_t DivideWithRemainder(uint64_t n, uint64_t* remainder) const {
    *remainder = n % divisor;
    return n / divisor;
  }
};

template <class Source, class Unit, class Index, int kPack>
__global__ void __launch_bounds__(kCopyThreads) CopyKernel(Source source, Unit* out, Index units) {
  device::GridDependencyWait();
  const Index first = (static_cast<Index>(blockIdx.x) * kCopyThreads + threadIdx.x) * kPack;
  if (first >= units) return;
  auto cursor = source.At(first);
  if (units - first < kPack) {
    for (Index i = first;;) {
      out[i] = cursor.Load();
      if (++i == units) return;
      cursor.Next(source);
    }
  }
  Pack<Unit, kPack> pack;
  if (cursor.row_left >= kPack) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      if (k != 0) cursor.Step(source);
      pack.value[k] = cursor.Load();
    }
  } else {
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      if (k != 0) cursor.Next(source);
      pack.value[k] = cursor.Load();
    }
  }
  StorePack<kPack>(out + first, pack);
}

// What a launcher is instantiated for.
template <class UnitType, class IndexType, int kPackUnits>
struct CopyVariant {
  using Unit = UnitType;
  using Index = IndexType;
  static constexpr int kPack = kPackUnits;
};

template <class Variant, class Source>
Status LaunchCopy(const Source& source, void* out, int64_t units, device::Stream stream) {
  using Unit = typename Variant::Unit;
  using Index = typename Variant::Index;
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(units, int64_t{Variant::kPack} * kCopyThreads));
  config.block.x = kCopyThreads;
  config.programmatic = true;
  return device::Launch(CopyKernel<Source, Unit, Index, Variant::kPack>, config, stream, source,
                        static_cast<Unit*>(out), static_cast<Index>(units));
}

// Calls `launch` with the variant for `units` units of `unit_bytes` (1, 2, 4, 8 or 16) written to `out`.
template <class F>
Status VisitCopyVariant(int unit_bytes, int64_t units, const void* out, F&& launch) {
  const auto visit = [&]<class Unit>() {
    if (FitsIndex(units) && IsAligned(out, kPackBytes)) {
      return launch(CopyVariant<Unit, uint32_t, PackElems(sizeof(Unit))>{});
    }
    return launch(CopyVariant<Unit, uint64_t, 1>{});
  };
  switch (unit_bytes) {
    case 1:
      return visit.template operator()<uint8_t>();
    case 2:
      return visit.template operator()<uint16_t>();
    case 4:
      return visit.template operator()<uint32_t>();
    case 8:
      return visit.template operator()<uint64_t>();
    case 16:
      return visit.template operator()<Unit16>();
    default:
      return Internal("data movement in units of ", unit_bytes, " bytes");
  }
}

}  // namespace cudaep::kernels
