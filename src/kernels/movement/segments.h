// Joins tensors into one along an axis (Concat), or takes one apart (Split): up to kMaxSegments in one launch.
//
// Around the axis every tensor is a matrix: as many rows as there are positions before the axis, a row being the
// rest. A segment's rows lie at a fixed place inside the rows of the whole.
#pragma once

#include <cstdint>
#include <span>

#include "device/device.h"

namespace cudaep::kernels {

inline constexpr int kMaxSegments = 64;

struct Segment {
  void* pointer = nullptr;  // only read by a join; null to leave a segment out
  int64_t row_bytes = 0;
  int64_t offset_bytes = 0;  // inside a row of the whole
};

struct SegmentRows {
  int64_t rows = 0;
  int64_t whole_bytes = 0;  // of one row of the whole
};

Status LaunchJoin(const SegmentRows& shape, std::span<const Segment> segments, void* whole, device::Stream stream);
Status LaunchSplit(const SegmentRows& shape, std::span<const Segment> segments, const void* whole,
                   device::Stream stream);

}  // namespace cudaep::kernels
