#include "abi/host_tensor.h"

#include "abi/devices.h"
#include "abi/type_info.h"

namespace cudaep::abi {

Status ViewTensor(const OrtValue* value, ops::TensorView* view) {
  if (value == nullptr) {
    *view = {};
    return Status::Ok();
  }
  const OrtApi& ort = *Host().ort;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  size_t rank = 0;
  CUDAEP_RETURN_IF_ORT_ERROR(ort.GetTensorElementTypeAndShapeDataReference(value, &type, &view->dim, &rank));
  CUDAEP_RETURN_IF_ORT_ERROR(ort.GetTensorData(value, &view->data));
  view->rank = static_cast<int32_t>(rank);
  view->type = ToDataType(type);
  return Status::Ok();
}

bool IsOurs(const OrtMemoryDevice* memory) {
  return Host().ep->MemoryDevice_GetDeviceType(memory) == OrtMemoryInfoDeviceType_GPU &&
         Host().ep->MemoryDevice_GetVendorId(memory) == kNvidiaVendorId;
}

bool IsInDeviceMemory(const OrtMemoryDevice* memory) {
  return IsOurs(memory) && Host().ep->MemoryDevice_GetMemoryType(memory) == OrtDeviceMemoryType_DEFAULT;
}

bool IsHost(const OrtMemoryDevice* memory) {
  return Host().ep->MemoryDevice_GetDeviceType(memory) == OrtMemoryInfoDeviceType_CPU;
}

}  // namespace cudaep::abi
