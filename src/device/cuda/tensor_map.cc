#include "device/tensor_map.h"

#include "device/cuda/driver_function.h"

namespace cudaep::device {

Status MakeTensorMap(const void* matrix, int64_t rows, int64_t columns, unsigned box_rows, TensorMap* map) {
  static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) == alignof(CUtensorMap));
  static const auto encode = [] {
    decltype(&cuTensorMapEncodeTiled) function = nullptr;
    return cuda::FindDriverFunction("cuTensorMapEncodeTiled", &function) ? function : nullptr;
  }();
  if (encode == nullptr) return NotSupported("this driver has no tensor maps");
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {sizes[0] * 2};
  const cuuint32_t box[] = {kBoxColumns, box_rows}, steps[] = {1, 1};
  const CUresult result =
      encode(reinterpret_cast<CUtensorMap*>(map), CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, const_cast<void*>(matrix), sizes,
             strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS) return Status::Ok();
  return InvalidArgument("no tensor map of [", rows, ',', columns, "] in boxes of ", box_rows, " rows: driver error ",
                         static_cast<int>(result));
}

}  // namespace cudaep::device
