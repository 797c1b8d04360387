#include <algorithm>

#include "core/checked_math.h"
#include "kernels/scan/scan_limits.h"

namespace cudaep::kernels {

size_t Scan::scratch_bytes() const {
  if (segments <= 1) return 0;
  const size_t size = SizeOf(type) == 8 ? 8 : 4;
  return static_cast<size_t>(outer * segments * inner) * size;
}

Scan PlanScan(Scan scan, int multiprocessors, int64_t force_segments) {
  scan.segments = 1;
  scan.segment_length = scan.length;
  const bool rows = scan.inner == 1;
  // What a segment is a multiple of, how long it is at least to be worth it, and how many fill the device.
  const int64_t step = rows ? kScanBlock * PackElems(SizeOf(scan.type)) : 1;
  const int64_t shortest = rows ? 4 * step : 64;
  const int64_t wanted = int64_t{multiprocessors} * (rows ? 8 : 1024);
  const int64_t lines = scan.outer * scan.inner;
  int64_t segments = force_segments;
  if (segments == 0) segments = lines == 0 ? 1 : std::min(wanted / lines, scan.length / shortest);
  if (segments <= 1 || scan.length == 0) return scan;
  scan.segment_length = CeilDiv(CeilDiv(scan.length, segments), step) * step;
  scan.segments = CeilDiv(scan.length, scan.segment_length);
  return scan;
}

}  // namespace cudaep::kernels
