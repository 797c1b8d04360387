#include "device/tensor_map.h"

namespace cudaep::device::detail {

Status CheckTensorMap(const void* matrix, int64_t rows, int64_t columns, unsigned box_rows, int side_by_side) {
  constexpr int64_t kMost = int64_t{1} << 31;
  const bool fits = rows > 0 && rows < kMost && columns > 0 && columns < kMost && columns % 8 == 0 && box_rows > 0 &&
                    box_rows <= kMostBoxRows && reinterpret_cast<uintptr_t>(matrix) % 16 == 0;
  const bool ordered = side_by_side == 2 || (side_by_side == 8 && rows % 32 == 0 && box_rows % 32 == 0);
  if (fits && ordered) return Status::Ok();
  return InvalidArgument("no tensor map of [", rows, ',', columns, "] in boxes of ", box_rows, " rows, ", side_by_side,
                         " side by side");
}

}  // namespace cudaep::device::detail
