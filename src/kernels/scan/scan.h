// Running sums and products along one axis.
//
// Contiguous rows are scanned by a warp or a block each, tile by tile; with other dimensions inside the axis each of
// their elements is a column with a thread of its own. Where that makes too few threads the axis is cut into segments:
// their totals first, then what comes before each, then the results. Products of floats are not cut, and a tile of a
// row in which a part of the product leaves the normal numbers is multiplied one element after the other. The order of
// operations depends on the shape, the device and such values alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/data_type.h"
#include "device/device.h"

namespace cudaep::kernels {

inline constexpr DataTypeSet kScanTypes =
    kFloatTypes | DataTypeSet{DataType::kInt32, DataType::kInt64, DataType::kUint32, DataType::kUint64};

enum class ScanOp : uint8_t { kSum, kProduct };

// x and the result are [outer, length, inner].
struct Scan {
  ScanOp op = ScanOp::kSum;
  DataType type = DataType::kFloat;
  int64_t outer = 0, length = 0, inner = 0;
  int64_t exclusive = 0;  // 1: an element's result is without itself
  int64_t reverse = 0;    // 1: from the end
  int64_t segments = 1, segment_length = 0;

  // Totals of the segments.
  size_t scratch_bytes() const;
};

// Chooses the segments of a scan that is described otherwise; `force_segments` other than 0 is taken as their number,
// or as near to it as tiles allow.
Scan PlanScan(Scan scan, int multiprocessors, int64_t force_segments = 0);

// 16-bit floats are added in fp32, integers wrap around. `out` may be `in`.
Status LaunchScan(const Scan& scan, const void* in, void* out, void* scratch, device::Stream stream);

}  // namespace cudaep::kernels
