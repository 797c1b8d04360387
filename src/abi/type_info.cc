#include "abi/type_info.h"

#include <algorithm>
#include <cstring>

#include "abi/host_tensor.h"

namespace cudaep::abi {
namespace {

// Where the host's numbers differ from ONNX's.
struct Renumbered {
  int host;
  DataType type;
};
constexpr Renumbered kRenumbered[] = {{24, DataType::kUint2}, {25, DataType::kInt2}, {26, DataType::kFloat8E8M0}};

ops::ValueKind KindOf(const OrtTypeInfo* info) {
  ONNXType kind = ONNX_TYPE_UNKNOWN;
  if (!FromOrt(Host().ort->GetOnnxTypeFromTypeInfo(info, &kind)).ok()) return ops::ValueKind::kOther;
  if (kind == ONNX_TYPE_TENSOR) return ops::ValueKind::kTensor;
  if (kind == ONNX_TYPE_SEQUENCE) return ops::ValueKind::kSequence;
  return kind == ONNX_TYPE_OPTIONAL ? ops::ValueKind::kOptional : ops::ValueKind::kOther;
}

}  // namespace

DataType ToDataType(ONNXTensorElementDataType type) {
  const int number = static_cast<int>(type);
  for (const Renumbered& one : kRenumbered) {
    if (one.host == number) return one.type;
  }
  return number < kDataTypeCount ? static_cast<DataType>(number) : DataType::kUndefined;
}

ONNXTensorElementDataType ToHostType(DataType type) {
  for (const Renumbered& one : kRenumbered) {
    if (one.type == type) return static_cast<ONNXTensorElementDataType>(one.host);
  }
  return static_cast<ONNXTensorElementDataType>(type);
}

ValueType ReadValueType(const OrtTypeInfo* info) {
  ValueType value;
  if (info == nullptr) return value;
  const OrtApi& ort = *Host().ort;
  value.kind = KindOf(info);
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  if (value.kind != ops::ValueKind::kTensor || !FromOrt(ort.CastTypeInfoToTensorInfo(info, &tensor)).ok() ||
      tensor == nullptr) {
    return value;
  }
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  FromOrt(ort.GetTensorElementType(tensor, &type)).IgnoreError();
  value.element = ToDataType(type);
  if (!ort.TensorTypeAndShape_HasShape(tensor)) return value;  // its count of dimensions would be 0
  size_t rank = 0;
  if (!FromOrt(ort.GetDimensionsCount(tensor, &rank)).ok()) return value;
  Shape dims(static_cast<int>(rank), kUnknownDim);
  if (rank != 0 && !FromOrt(ort.GetDimensions(tensor, dims.data(), rank)).ok()) return value;
  for (int i = 0; i < dims.rank(); ++i) dims[i] = std::max(dims[i], kUnknownDim);
  value.dims = std::move(dims);
  return value;
}

std::vector<std::string> ReadDimNames(const OrtTypeInfo* info) {
  const OrtApi& ort = *Host().ort;
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  size_t rank = 0;
  if (info == nullptr || !FromOrt(ort.CastTypeInfoToTensorInfo(info, &tensor)).ok() || tensor == nullptr ||
      !FromOrt(ort.GetDimensionsCount(tensor, &rank)).ok()) {
    return {};
  }
  std::vector<const char*> names(rank, "");
  if (rank != 0) FromOrt(ort.GetSymbolicDimensions(tensor, names.data(), rank)).IgnoreError();
  return {names.begin(), names.end()};
}

std::optional<ops::HostTensor> CopyHostTensor(const OrtValue* value) {
  ops::TensorView view;
  if (value == nullptr || !ViewTensor(value, &view).ok() || !view.present() || view.type == DataType::kString) {
    return std::nullopt;
  }
  ops::HostTensor tensor{.type = view.type, .dims = Shape(view.dims()), .data = {}};
  tensor.data.resize(view.bytes());
  if (!tensor.data.empty()) std::memcpy(tensor.data.data(), view.data, tensor.data.size());
  return tensor;
}

}  // namespace cudaep::abi
