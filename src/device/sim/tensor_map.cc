#include "device/tensor_map.h"

namespace cudaep::device {

Status MakeTensorMap(const void* matrix, int64_t rows, int64_t columns, unsigned box_rows, TensorMap* map,
                     int together) {
  constexpr int64_t kMost = int64_t{1} << 31;
  const bool fits = rows > 0 && rows < kMost && columns > 0 && columns < kMost && columns % 8 == 0 &&
                    (together == 2 || (rows % (4 * together) == 0 && box_rows % unsigned(4 * together) == 0));
  if (!fits || box_rows == 0 || box_rows > kMostBoxRows || reinterpret_cast<uintptr_t>(matrix) % 16 != 0) {
    return InvalidArgument("no tensor map of [", rows, ',', columns, "] in boxes of ", box_rows, " rows, ", together,
                           " together");
  }
  *map = {{reinterpret_cast<uintptr_t>(matrix), static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), box_rows,
           static_cast<uint64_t>(together)}};
  return Status::Ok();
}

}  // namespace cudaep::device
