#include "kernels/common/units.h"
#include "kernels/index_limit.h"
#include "kernels/movement/copy_kernel.cuh"
#include "kernels/movement/segments.h"

namespace cudaep::kernels {
namespace detail {

enum class Direction { kJoin, kSplit };

// Segments in units. Each has blocks of its own, so that finding a unit's segment is uniform within a block.
template <Direction kDirection, class Index>
struct SegmentTable {
  static constexpr bool kWritesThroughPointers = kDirection == Direction::kSplit;
  int count = 0;
  Index whole_units = 0;  // of a row
  struct Entry {
    void* pointer;
    Index units;   // of all rows
    Index offset;  // inside a row of the whole
    IndexDivider<Index> row_units;
    uint32_t first_block;
  } entry[kMaxSegments] = {};
};

}  // namespace detail

namespace {

using detail::Direction;
using detail::SegmentTable;

// More of the narrow ones, to have enough bytes in flight.
template <class Unit>
constexpr int kUnitsPerThread = sizeof(Unit) < 4 ? 8 : 4;
template <class Unit>
constexpr int64_t kUnitsPerBlock = int64_t{kCopyThreads} * kUnitsPerThread<Unit>;

template <Direction kDirection, class Unit, class Index>
__device__ __forceinline__ void MoveSegment(const SegmentTable<kDirection, Index>& table, Unit* whole_out,
                                            const Unit* whole_in) {
  int low = 0, high = table.count - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (table.entry[middle].first_block <= blockIdx.x) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const auto& segment = table.entry[low];
  Unit* const pointer = static_cast<Unit*>(segment.pointer);
  const Index first =
      static_cast<Index>(blockIdx.x - segment.first_block) * static_cast<Index>(kUnitsPerBlock<Unit>) + threadIdx.x;
  // All loads are issued before the first store, which the compiler must assume to change what is loaded.
  Unit value[kUnitsPerThread<Unit>];
  int64_t at[kUnitsPerThread<Unit>];
#pragma unroll
  for (int k = 0; k < kUnitsPerThread<Unit>; ++k) {
    const Index i = first + k * kCopyThreads;
    if (i >= segment.units) break;
    Index column;
    const Index row = segment.row_units.DivideWithRemainder(i, &column);
    at[k] = static_cast<int64_t>(row) * table.whole_units + segment.offset + column;
    value[k] = kDirection == Direction::kJoin ? pointer[i] : whole_in[at[k]];
  }
#pragma unroll
  for (int k = 0; k < kUnitsPerThread<Unit>; ++k) {
    const Index i = first + k * kCopyThreads;
    if (i >= segment.units) break;
    if constexpr (kDirection == Direction::kJoin) {
      whole_out[at[k]] = value[k];
    } else {
      pointer[i] = value[k];
    }
  }
}

template <class Unit, class Index>
__global__ void __launch_bounds__(kCopyThreads) JoinKernel(SegmentTable<Direction::kJoin, Index> table, Unit* whole) {
  device::GridDependencyWait();
  MoveSegment<Direction::kJoin, Unit, Index>(table, whole, nullptr);
}

template <class Unit, class Index>
__global__ void __launch_bounds__(kCopyThreads)
    SplitKernel(SegmentTable<Direction::kSplit, Index> table, const Unit* whole) {
  device::GridDependencyWait();
  MoveSegment<Direction::kSplit, Unit, Index>(table, nullptr, whole);
}

template <Direction kDirection, class Unit, class Index>
Status LaunchTable(const SegmentRows& shape, std::span<const Segment> segments, void* whole, device::Stream stream) {
  constexpr int64_t kUnit = sizeof(Unit);
  SegmentTable<kDirection, Index> table;
  table.whole_units = static_cast<Index>(shape.whole_bytes / kUnit);
  int64_t blocks = 0;
  for (const Segment& segment : segments) {
    const int64_t row_units = segment.row_bytes / kUnit;
    table.entry[table.count++] = {.pointer = segment.pointer,
                                  .units = static_cast<Index>(row_units * shape.rows),
                                  .offset = static_cast<Index>(segment.offset_bytes / kUnit),
                                  .row_units = IndexDivider<Index>(row_units),
                                  .first_block = static_cast<uint32_t>(blocks)};
    blocks += CeilDiv<int64_t>(row_units * shape.rows, kUnitsPerBlock<Unit>);
  }
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(blocks);
  config.block.x = kCopyThreads;
  config.programmatic = true;
  if constexpr (kDirection == Direction::kJoin) {
    return device::Launch(JoinKernel<Unit, Index>, config, stream, table, static_cast<Unit*>(whole));
  } else {
    return device::Launch(SplitKernel<Unit, Index>, config, stream, table, static_cast<const Unit*>(whole));
  }
}

template <Direction kDirection>
Status LaunchGroup(const SegmentRows& shape, std::span<const Segment> segments, void* whole, device::Stream stream) {
  int unit_bytes = std::min(WidestUnit(shape.whole_bytes), WidestUnit(whole));
  for (const Segment& segment : segments) {
    unit_bytes = std::min(
        {unit_bytes, WidestUnit(segment.row_bytes), WidestUnit(segment.offset_bytes), WidestUnit(segment.pointer)});
  }
  return VisitUnit(unit_bytes, [&]<class Unit>() {
    return FitsIndex(shape.rows * shape.whole_bytes / unit_bytes)
               ? LaunchTable<kDirection, Unit, uint32_t>(shape, segments, whole, stream)
               : LaunchTable<kDirection, Unit, uint64_t>(shape, segments, whole, stream);
  });
}

// Leaves out what is absent or empty.
template <Direction kDirection>
Status LaunchSegments(const SegmentRows& shape, std::span<const Segment> segments, void* whole, device::Stream stream) {
  if (segments.size() > kMaxSegments) return Internal("a launch of ", segments.size(), " segments");
  Segment group[kMaxSegments];
  size_t count = 0;
  for (const Segment& segment : segments) {
    if (segment.pointer != nullptr && segment.row_bytes * shape.rows != 0) group[count++] = segment;
  }
  return count == 0 ? Status::Ok() : LaunchGroup<kDirection>(shape, {group, count}, whole, stream);
}

}  // namespace

Status LaunchJoin(const SegmentRows& shape, std::span<const Segment> segments, void* whole, device::Stream stream) {
  return LaunchSegments<Direction::kJoin>(shape, segments, whole, stream);
}

Status LaunchSplit(const SegmentRows& shape, std::span<const Segment> segments, const void* whole,
                   device::Stream stream) {
  return LaunchSegments<Direction::kSplit>(shape, segments, const_cast<void*>(whole), stream);
}

}  // namespace cudaep::kernels
