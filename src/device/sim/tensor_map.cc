#include "device/tensor_map.h"

namespace cudaep::device {

Status MakeTensorMap(const void* matrix, int64_t rows, int64_t columns, unsigned box_rows, TensorMap* map,
                     int side_by_side) {
  CUDAEP_RETURN_IF_ERROR(detail::CheckTensorMap(matrix, rows, columns, box_rows, side_by_side));
  *map = {{reinterpret_cast<uintptr_t>(matrix), static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), box_rows,
           static_cast<uint64_t>(side_by_side)}};
  return Status::Ok();
}

}  // namespace cudaep::device
