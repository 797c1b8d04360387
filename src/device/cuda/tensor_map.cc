#include "device/tensor_map.h"

#include "device/cuda/driver_function.h"

namespace cudaep::device {

Status MakeTensorMap(const void* matrix, int64_t rows, int64_t columns, unsigned box_rows, TensorMap* map,
                     int side_by_side) {
  CUDAEP_RETURN_IF_ERROR(detail::CheckTensorMap(matrix, rows, columns, box_rows, side_by_side));
  static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) == alignof(CUtensorMap));
  static const auto encode = [] {
    decltype(&cuTensorMapEncodeTiled) function = nullptr;
    return cuda::FindDriverFunction("cuTensorMapEncodeTiled", &function) ? function : nullptr;
  }();
  if (encode == nullptr) return NotSupported("this driver has no tensor maps");
  // The rows in the order of a box: j, q, i, and groups of 4 * side_by_side. Their strides do not grow, which the
  // driver's documentation does not speak of; 580 takes them, and so does the hardware.
  const auto size = static_cast<cuuint64_t>(columns), row = size * 2, count = static_cast<cuuint64_t>(side_by_side);
  const cuuint64_t groups = static_cast<cuuint64_t>(rows) / (4 * count);
  const cuuint64_t sizes[] = {size, 2, 4, count / 2, groups}, strides[] = {row, row * count, row * 2, row * 4 * count};
  const cuuint32_t box[] = {kBoxColumns, 2, 4, static_cast<cuuint32_t>(side_by_side) / 2,
                            box_rows / static_cast<cuuint32_t>(4 * side_by_side)};
  const cuuint64_t plain_sizes[] = {size, static_cast<cuuint64_t>(rows)};
  const cuuint32_t plain_box[] = {kBoxColumns, box_rows}, steps[] = {1, 1, 1, 1, 1};
  const bool plain = side_by_side == 2;
  const CUresult result = encode(
      reinterpret_cast<CUtensorMap*>(map), CU_TENSOR_MAP_DATA_TYPE_UINT16, plain ? 2 : 5, const_cast<void*>(matrix),
      plain ? plain_sizes : sizes, strides, plain ? plain_box : box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS) return Status::Ok();
  return InvalidArgument("no tensor map of [", rows, ',', columns, "] in boxes of ", box_rows, " rows, ", side_by_side,
                         " side by side: driver error ", static_cast<int>(result));
}

}  // namespace cudaep::device
