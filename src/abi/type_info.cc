#include "abi/type_info.h"

namespace cudaep::abi {

DataType ToDataType(ONNXTensorElementDataType type) {
  const int number = static_cast<int>(type);
  return number < kDataTypeCount ? static_cast<DataType>(number) : DataType::kUndefined;
}

DataType ElementTypeOf(const OrtTypeInfo* info) {
  const OrtApi& ort = *Host().ort;
  if (info == nullptr) return DataType::kUndefined;
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  FromOrt(ort.CastTypeInfoToTensorInfo(info, &tensor)).IgnoreError();
  if (tensor == nullptr) return DataType::kUndefined;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  FromOrt(ort.GetTensorElementType(tensor, &type)).IgnoreError();
  return ToDataType(type);
}

}  // namespace cudaep::abi
