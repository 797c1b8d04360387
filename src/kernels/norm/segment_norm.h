// Normalisation of rows that are made of segments, each contiguous: over batch and pixels of each channel, say. Rows of
// one segment are contiguous.
//
// One launch, and each element is read once, as long as the shared memory and the registers of the blocks that share a
// row hold it; what they do not hold is read twice. The blocks of such a team are all resident (a cooperative launch)
// and tell each other their moments through device memory, to be merged in a fixed order. fp32 arithmetic. `y` may be
// `x`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/data_type.h"
#include "device/device.h"
#include "kernels/norm/layer_norm.h"

namespace cudaep::kernels {

inline constexpr DataTypeSet kSegmentNormTypes{DataType::kFloat, DataType::kFloat16, DataType::kBFloat16};

// A tensor of [outer, segments, inner, length]: a row for each of the outer and inner indices.
struct SegmentedRows {
  int64_t outer = 1, segments = 1, inner = 1, length = 1;
  int64_t rows() const { return outer * inner; }
  int64_t elems() const { return segments * length; }  // of a row
};

struct SegmentNormPlan {
  unsigned team = 1;    // blocks that share a row
  unsigned blocks = 0;  // in whole teams; each team has a row at least
  int slots = 1;        // of a block's ring (kernels/common/long_rows.h)
  bool ahead = false;   // a block, not a team, sums a row before it writes the row ahead of it: it holds two and more
  bool needs_tickets() const { return team > 1; }
};

// Nothing for rows of other types, of segments that are no whole packs or have too few of them to keep a warp busy,
// and for more than 2^31 rows or elements of one.
std::optional<SegmentNormPlan> PlanSegmentNorm(DataType type, const SegmentedRows& rows,
                                               const device::DeviceInfo& device);

struct SegmentNormArgs {
  DataType type = DataType::kUndefined;
  const void* x = nullptr;  // x and y allow packs
  void* y = nullptr;
  const void* scale = nullptr;  // or null; of `type`, for row % affine_rows and, where `affine_segments`, each segment
  const void* bias = nullptr;   // likewise
  int64_t affine_rows = 1;
  bool affine_segments = false;
  double epsilon = 0;
  RowStatistic statistic = RowStatistic::kVariance;
  SegmentedRows rows = {};
  unsigned* tickets = nullptr;  // of a plan that needs_tickets(): kReduceTickets zeros, which it leaves as zeros
  const SegmentNormPlan* plan = nullptr;
};

Status LaunchSegmentNorm(const SegmentNormArgs& args, device::Stream stream);
Status LaunchSegmentNormAhead(const SegmentNormArgs& args, device::Stream stream);  // by a plan that is `ahead`

}  // namespace cudaep::kernels
