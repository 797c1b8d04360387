// The one gathering copy: out[i] = source(i), for any source and any width of unit.
//
// A thread fills packs of consecutive units, 16 aligned bytes each, so that writes are full whatever the source does
// and wherever the output begins; of many packs it has kCopyPacks and loads them all before it stores the first.
// Elements are moved as units of 1 to 16 bytes: a launcher takes the widest that sizes, strides and addresses allow.
// Variants are packs with 32-bit indices and single units with 64-bit indices, for each of the five widths; and single
// units for elements that are aligned to half their size.
//
// A source is a struct passed by value; At(i) gives a cursor to unit i. The cursor has Load(); row_left, the units to
// the end of its row; Step(source), to the next unit of the row; and Next(source), to the next unit wherever that is.
// None is called for units past the end. Where units of a row lie in a row in memory too, a cursor may say so:
// Around(n) is the address of its unit there where any of the n units from it on is there, null elsewhere, and
// Inside(n) whether all of them are; the source then says in `readable` what may be read around them. Prepare(source),
// where a cursor has it, comes before Load.
#pragma once

#include <algorithm>
#include <bit>
#include <type_traits>

#include "core/checked_math.h"
#include "device/launch.h"
#include "kernels/common/trigger.cuh"
#include "kernels/common/units.h"
#include "kernels/fast_divide.h"
#include "kernels/index_limit.h"
#include "kernels/movement/shifted_load.cuh"

namespace cudaep::kernels {

inline constexpr int kCopyThreads = 256;
inline constexpr unsigned kCopyPacks = 2;
// Of an output whose rows are found one by one: with fewer each has a thread (a mask of 1,025 bytes on an H200: 1.7 us,
// where 16 of a thread waited for each other for 17; of 32,800 bytes 14 us so).
inline constexpr int64_t kFewFoundUnits = 1 << 18;
inline constexpr int64_t kManyCopyPacks = 1 << 17;  // with fewer each has a thread of its own

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

// A cursor whose units are read one by one.
template <class Source, class Index>
__device__ __forceinline__ auto CursorAt(const Source& source, Index i) {
  auto cursor = source.At(i);
  if constexpr (requires { cursor.Prepare(source); }) cursor.Prepare(source);
  return cursor;
}

template <class Source, class Index>
concept HasAround = requires(const Source& source) {
  source.At(Index{}).Around(Index{});
};

// What a thread keeps of a pack until it stores it: words where they come as words, or else units, which are put
// together once all of them are there.
template <class Source, class Unit, class Index, int kPack>
using HeldPack = std::conditional_t<(kPack > 1 && HasAround<Source, Index>), Pack<uint32_t, 4>, Pack<Unit, kPack>>;

// A source whose At reads no memory, so that a kernel may call it before it waits for its predecessor.
template <class Source>
concept LocatesAhead = Source::kLocatesAhead;

// The units of the pack that starts at the cursor, all of them in the output.
template <int kPack, class Unit, class Index, class Source, class Cursor>
__device__ __forceinline__ auto LoadUnits(const Source& source, Cursor cursor) {
  using Held = HeldPack<Source, Unit, Index, kPack>;
  Pack<Unit, kPack> pack;
  bool loaded = false;  // what is in memory in a row
  if constexpr (HasAround<Source, Index>) {
    const Unit* const from = cursor.Around(Index{kPack});
    if constexpr (kPack == 1) {
      if (from != nullptr) return Pack<Unit, 1>{*from};
    } else {
      Held held;
      if (from != nullptr && LoadShifted<Unit>(from, source.readable, held)) {
        if (cursor.Inside(Index{kPack})) return held;
        loaded = cursor.row_left >= kPack;
        pack = std::bit_cast<Pack<Unit, kPack>>(held);
      }
    }
  }
  if constexpr (requires { cursor.Prepare(source); }) cursor.Prepare(source);
  if (loaded) {
    if constexpr (HasAround<Source, Index>) {
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        if (k != 0) cursor.Step(source);
        if (!cursor.Inside(1)) pack.value[k] = cursor.Load();
      }
    }
  } else if (cursor.row_left >= kPack) {
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
  if constexpr (std::is_same_v<Held, Pack<Unit, kPack>>) {
    return pack;
  } else {
    return std::bit_cast<Held>(pack);
  }
}

// Packs lie at the 16-byte boundaries of memory: the first holds `lead` units before the output's first one.
template <class Source, class Unit, class Index, int kPack>
__global__ void __launch_bounds__(kCopyThreads) CopyKernel(const __grid_constant__ Source source, Unit* out,
                                                           Index units, unsigned lead, unsigned packs_per_thread) {
  TriggerDependentsOfSmallGrid();
  const Index thread = static_cast<Index>(blockIdx.x) * kCopyThreads * packs_per_thread + threadIdx.x;
  const auto begin_of = [&](unsigned j) { return (thread + j * kCopyThreads) * kPack; };  // counted with the lead
  const auto is_whole = [&](unsigned j) {
    return j < packs_per_thread && begin_of(j) >= lead && begin_of(j) + kPack <= units + lead;
  };
  const auto locate = [&](unsigned j) { return source.At(static_cast<Index>(begin_of(j) - lead)); };
  using Held = HeldPack<Source, Unit, Index, kPack>;
  Held pack[kCopyPacks];
  if constexpr (LocatesAhead<Source>) {
    decltype(locate(0)) cursor[kCopyPacks];
#pragma unroll
    for (unsigned j = 0; j < kCopyPacks; ++j) {
      if (is_whole(j)) cursor[j] = locate(j);
    }
    device::GridDependencyWait();
#pragma unroll
    for (unsigned j = 0; j < kCopyPacks; ++j) {
      if (is_whole(j)) pack[j] = LoadUnits<kPack, Unit, Index>(source, cursor[j]);
    }
  } else {
    device::GridDependencyWait();
#pragma unroll
    for (unsigned j = 0; j < kCopyPacks; ++j) {
      if (is_whole(j)) pack[j] = LoadUnits<kPack, Unit, Index>(source, locate(j));
    }
  }
#pragma unroll
  for (unsigned j = 0; j < kCopyPacks; ++j) {
    if (is_whole(j)) *reinterpret_cast<Held*>(out + (begin_of(j) - lead)) = pack[j];
  }
  if constexpr (kPack > 1) {  // the ends of the output
#pragma unroll 1
    for (unsigned j = 0; j < packs_per_thread; ++j) {
      const Index begin = device::Max<Index>(begin_of(j), lead);
      const Index end = device::Min<Index>(begin_of(j) + kPack, units + lead);
      if (is_whole(j) || begin >= end) continue;
      auto cursor = CursorAt(source, static_cast<Index>(begin - lead));
      for (Index i = begin - lead;;) {
        out[i] = cursor.Load();
        if (++i == end - lead) break;
        cursor.Next(source);
      }
    }
  }
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
  constexpr int kPack = Variant::kPack;
  const unsigned lead = static_cast<unsigned>(reinterpret_cast<uintptr_t>(out) / sizeof(Unit) % kPack);
  const int64_t packs = CeilDiv<int64_t>(units + lead, kPack);
  const unsigned packs_per_thread = packs < kManyCopyPacks ? 1 : kCopyPacks;
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(packs, int64_t{packs_per_thread} * kCopyThreads));
  config.block.x = kCopyThreads;
  config.programmatic = true;
  return device::Launch(CopyKernel<Source, Unit, Index, kPack>, config, stream, source, static_cast<Unit*>(out),
                        static_cast<Index>(units), lead, packs_per_thread);
}

template <class Unit, class F>
Status VisitCopyIndex(int64_t units, bool alone, F&& launch) {
  if constexpr (!kIsSplit<Unit>) {
    if (FitsIndex(units) && !alone) return launch(CopyVariant<Unit, uint32_t, PackElems(sizeof(Unit))>{});
  }
  return launch(CopyVariant<Unit, uint64_t, 1>{});
}

// Calls `launch` with the variant for `units` units of `unit_bytes` (1, 2, 4, 8 or 16) of elements that cannot be taken
// apart; addresses are multiples of `alignment`.
template <class F>
Status VisitCopyVariant(int unit_bytes, int alignment, int64_t units, F&& launch) {
  return VisitUnit(unit_bytes, alignment, [&]<class Unit>() { return VisitCopyIndex<Unit>(units, false, launch); });
}

// The same of rows of `row_units` that are found one by one: a pack of shorter ones waits for memory as often as it has
// rows, so of few units each has a thread of its own.
template <class F>
Status VisitRowsVariant(int unit_bytes, int64_t units, int64_t row_units, F&& launch) {
  return VisitUnit(unit_bytes, [&]<class Unit>() {
    const bool alone = row_units < PackElems(sizeof(Unit)) && units <= kFewFoundUnits;
    return VisitCopyIndex<Unit>(units, alone, launch);
  });
}

}  // namespace cudaep::kernels
