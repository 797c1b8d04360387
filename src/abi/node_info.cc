#include "abi/node_info.h"

#include <algorithm>

#include "abi/host_tensor.h"

namespace cudaep::abi {
namespace {

ValueType TypeOf(const OrtValueInfo* value) {
  const OrtTypeInfo* type = nullptr;
  if (value == nullptr || !FromOrt(Host().ort->GetValueInfoTypeInfo(value, &type)).ok()) return {};
  const char* name = nullptr;  // some hosts give an absent value as one without a name
  if (FromOrt(Host().ort->GetValueInfoName(value, &name)).ok() && *name == '\0') return {};
  return ReadValueType(type);
}

}  // namespace

Status NodeInfo::Read() {
  const OrtApi& ort = *Host().ort;
  const char* name = nullptr;
  const char* op_type = nullptr;
  const char* domain = nullptr;
  CUDAEP_RETURN_IF_ORT_ERROR(ort.Node_GetName(node_, &name));
  CUDAEP_RETURN_IF_ORT_ERROR(ort.Node_GetOperatorType(node_, &op_type));
  CUDAEP_RETURN_IF_ORT_ERROR(ort.Node_GetDomain(node_, &domain));
  CUDAEP_RETURN_IF_ORT_ERROR(ort.Node_GetSinceVersion(node_, &since_version_));
  name_ = name;
  op_type_ = op_type;
  domain_ = std::string_view(domain) == "ai.onnx" ? "" : domain;
  size_t count = 0;
  CUDAEP_RETURN_IF_ORT_ERROR(ort.Node_GetNumInputs(node_, &count));
  inputs_.resize(count);
  CUDAEP_RETURN_IF_ORT_ERROR(ort.Node_GetInputs(node_, inputs_.data(), count));
  CUDAEP_RETURN_IF_ORT_ERROR(ort.Node_GetNumOutputs(node_, &count));
  outputs_.resize(count);
  CUDAEP_RETURN_IF_ORT_ERROR(ort.Node_GetOutputs(node_, outputs_.data(), count));
  for (const OrtValueInfo* value : inputs_) input_types_.push_back(TypeOf(value));
  for (const OrtValueInfo* value : outputs_) output_types_.push_back(TypeOf(value));
  return Status::Ok();
}

std::optional<ops::ConstantInfo> NodeInfo::constant(int index) const {
  const OrtApi& ort = *Host().ort;
  const OrtValueInfo* info = inputs_[static_cast<size_t>(index)];
  bool constant = false, outer = false;
  const OrtValue* value = nullptr;
  if (info == nullptr || !FromOrt(ort.ValueInfo_IsConstantInitializer(info, &constant)).ok() || !constant ||
      !FromOrt(ort.ValueInfo_IsFromOuterScope(info, &outer)).ok() || outer ||
      !FromOrt(ort.ValueInfo_GetInitializerValue(info, &value)).ok() || value == nullptr) {
    return std::nullopt;
  }
  ops::TensorView view;
  if (!ViewTensor(value, &view).ok()) return std::nullopt;
  return ops::ConstantInfo{.type = view.type, .dims = Shape(view.dims())};
}

bool NodeInfo::is_only_reader(int index) const {
  const OrtValueInfo* const info = inputs_[static_cast<size_t>(index)];
  const char* name = nullptr;
  return state_ != nullptr && info != nullptr && FromOrt(Host().ort->GetValueInfoName(info, &name)).ok() &&
         state_->IsReadOnce(name);
}

const OrtOpAttr* NodeInfo::Find(const char* attribute, OrtOpAttrType type) const {
  const OrtOpAttr* found = nullptr;
  OrtOpAttrType actual = ORT_OP_ATTR_UNDEFINED;
  if (!FromOrt(Host().ort->Node_GetAttributeByName(node_, attribute, &found)).ok() || found == nullptr ||
      !FromOrt(Host().ort->OpAttr_GetType(found, &actual)).ok() || actual != type) {
    return nullptr;
  }
  return found;
}

template <class T>
std::optional<std::vector<T>> NodeInfo::ReadArray(const char* attribute, OrtOpAttrType type) const {
  const OrtOpAttr* found = Find(attribute, type);
  if (found == nullptr) return std::nullopt;
  size_t bytes = 0;
  FromOrt(Host().ort->ReadOpAttr(found, type, nullptr, 0, &bytes)).IgnoreError();  // only the size
  std::vector<T> values(bytes / sizeof(T));
  if (bytes != 0 && !FromOrt(Host().ort->ReadOpAttr(found, type, values.data(), bytes, &bytes)).ok()) {
    return std::nullopt;
  }
  return values;
}

std::optional<int64_t> NodeInfo::Int(const char* attribute) const {
  const auto values = ReadArray<int64_t>(attribute, ORT_OP_ATTR_INT);
  return values && values->size() == 1 ? std::optional(values->front()) : std::nullopt;
}

std::optional<float> NodeInfo::Float(const char* attribute) const {
  const auto values = ReadArray<float>(attribute, ORT_OP_ATTR_FLOAT);
  return values && values->size() == 1 ? std::optional(values->front()) : std::nullopt;
}

std::optional<std::string> NodeInfo::String(const char* attribute) const {
  const auto characters = ReadArray<char>(attribute, ORT_OP_ATTR_STRING);
  if (!characters) return std::nullopt;
  return std::string(characters->begin(), characters->end());
}

std::optional<std::vector<int64_t>> NodeInfo::Ints(const char* attribute) const {
  return ReadArray<int64_t>(attribute, ORT_OP_ATTR_INTS);
}

std::optional<std::vector<float>> NodeInfo::Floats(const char* attribute) const {
  return ReadArray<float>(attribute, ORT_OP_ATTR_FLOATS);
}

// Each string ends with a zero byte.
std::optional<std::vector<std::string>> NodeInfo::Strings(const char* attribute) const {
  const auto characters = ReadArray<char>(attribute, ORT_OP_ATTR_STRINGS);
  if (!characters) return std::nullopt;
  std::vector<std::string> strings;
  for (auto at = characters->begin(); at != characters->end();) {
    const auto end = std::find(at, characters->end(), '\0');
    strings.emplace_back(at, end);
    at = end == characters->end() ? end : end + 1;
  }
  return strings;
}

Result<ops::Attributes> NodeInfo::ReadAttributes() const {
  const OrtApi& ort = *Host().ort;
  size_t count = 0;
  CUDAEP_RETURN_IF_ORT_ERROR(ort.Node_GetNumAttributes(node_, &count));
  std::vector<const OrtOpAttr*> all(count);
  CUDAEP_RETURN_IF_ORT_ERROR(ort.Node_GetAttributes(node_, all.data(), count));
  ops::Attributes made;
  const auto add = [&](const char* name, auto value) {
    if (value) made.emplace(name, *std::move(value));
  };
  for (const OrtOpAttr* attribute : all) {
    const char* name = nullptr;
    OrtOpAttrType type = ORT_OP_ATTR_UNDEFINED;
    if (attribute == nullptr) continue;
    CUDAEP_RETURN_IF_ORT_ERROR(ort.OpAttr_GetName(attribute, &name));
    CUDAEP_RETURN_IF_ORT_ERROR(ort.OpAttr_GetType(attribute, &type));
    if (type == ORT_OP_ATTR_INT) add(name, Int(name));
    if (type == ORT_OP_ATTR_FLOAT) add(name, Float(name));
    if (type == ORT_OP_ATTR_STRING) add(name, String(name));
    if (type == ORT_OP_ATTR_INTS) add(name, Ints(name));
    if (type == ORT_OP_ATTR_FLOATS) add(name, Floats(name));
    if (type == ORT_OP_ATTR_STRINGS) add(name, Strings(name));
    if (type == ORT_OP_ATTR_TENSOR) add(name, Tensor(name));
  }
  return made;
}

std::optional<ops::HostTensor> NodeInfo::Tensor(const char* attribute) const {
  const OrtOpAttr* const found = Find(attribute, ORT_OP_ATTR_TENSOR);
  OrtValue* value = nullptr;
  if (found == nullptr || !FromOrt(Host().ort->OpAttr_GetTensorAttributeAsOrtValue(found, &value)).ok()) {
    return std::nullopt;
  }
  auto tensor = CopyHostTensor(value);
  Host().ort->ReleaseValue(value);
  return tensor;
}

}  // namespace cudaep::abi
