#include "abi/kernel_info.h"

#include "abi/api_version.h"
#include "abi/host_tensor.h"
#include "core/strings.h"

namespace cudaep::abi {
namespace {

// Runs a host function of the form f(buffer, &size) twice: for the size, then for the text.
template <class F>
Status ReadText(std::string& text, F&& read) {
  size_t size = 0;
  FromOrt(read(nullptr, &size)).IgnoreError();  // older hosts report the size together with an error
  text.assign(size, '\0');
  if (size == 0) return Status::Ok();
  CUDAEP_RETURN_IF_ORT_ERROR(read(text.data(), &size));
  text.resize(size - 1);
  return Status::Ok();
}

template <class F>
ValueType ReadType(F&& read) {
  OrtTypeInfo* type = nullptr;
  if (!FromOrt(read(&type)).ok()) return {};
  ValueType value = ReadValueType(type);
  if (type != nullptr) Host().ort->ReleaseTypeInfo(type);
  return value;
}

bool Succeeded(OrtStatus* status) { return FromOrt(status).ok(); }

}  // namespace

Status KernelInfo::Read() {
  const OrtApi& ort = *Host().ort;
  CUDAEP_RETURN_IF_ERROR(
      ReadText(name_, [&](char* text, size_t* size) { return ort.KernelInfo_GetNodeName(info_, text, size); }));
  CUDAEP_RETURN_IF_ERROR(
      ReadText(op_type_, [&](char* text, size_t* size) { return ort.KernelInfo_GetOperatorType(info_, text, size); }));
  CUDAEP_RETURN_IF_ERROR(
      ReadText(domain_, [&](char* text, size_t* size) { return ort.KernelInfo_GetOperatorDomain(info_, text, size); }));
  CUDAEP_RETURN_IF_ORT_ERROR(ort.KernelInfo_GetOperatorSinceVersion(info_, &since_version_));
  size_t inputs = 0, outputs = 0;
  CUDAEP_RETURN_IF_ORT_ERROR(ort.KernelInfo_GetInputCount(info_, &inputs));
  CUDAEP_RETURN_IF_ORT_ERROR(ort.KernelInfo_GetOutputCount(info_, &outputs));
  for (size_t i = 0; i < inputs; ++i) {
    input_types_.push_back(ReadType([&](OrtTypeInfo** t) { return ort.KernelInfo_GetInputTypeInfo(info_, i, t); }));
  }
  for (size_t i = 0; i < outputs; ++i) {
    output_types_.push_back(ReadType([&](OrtTypeInfo** t) { return ort.KernelInfo_GetOutputTypeInfo(info_, i, t); }));
  }
  return Status::Ok();
}

Result<std::string> KernelInfo::InputName(size_t index) const {
  std::string name;
  CUDAEP_RETURN_IF_ERROR(ReadText(
      name, [&](char* text, size_t* size) { return Host().ort->KernelInfo_GetInputName(info_, index, text, size); }));
  return name;
}

std::string KernelInfo::Label() const {
  if (!name_.empty()) return StrCat(op_type_, " node '", name_, "'");
  std::string output;
  for (size_t i = 0; i < output_types_.size() && output.empty(); ++i) {
    ReadText(output, [&](char* text, size_t* size) {
      return Host().ort->KernelInfo_GetOutputName(info_, i, text, size);
    }).IgnoreError();
  }
  return StrCat(op_type_, " node with output '", output, "'");
}

const OrtValue* KernelInfo::ConstantValue(int index) const {
  int is_constant = 0;
  const OrtValue* value = nullptr;
  const bool told =
      Succeeded(Host().ort->KernelInfoGetConstantInput_tensor(info_, static_cast<size_t>(index), &is_constant, &value));
  return told && is_constant != 0 ? value : nullptr;
}

std::optional<ops::ConstantInfo> KernelInfo::constant(int index) const {
  ops::TensorView view;
  if (!ViewTensor(ConstantValue(index), &view).ok() || !view.present()) return std::nullopt;
  return ops::ConstantInfo{.type = view.type, .dims = Shape(view.dims())};
}

bool KernelInfo::is_only_reader(int index) const {
  Result<std::string> name = InputName(static_cast<size_t>(index));
  return name.ok() && state_.IsReadOnce(*name);
}

std::optional<int64_t> KernelInfo::Int(const char* attribute) const {
  int64_t value = 0;
  if (!Succeeded(Host().ort->KernelInfoGetAttribute_int64(info_, attribute, &value))) return std::nullopt;
  return value;
}

std::optional<float> KernelInfo::Float(const char* attribute) const {
  float value = 0;
  if (!Succeeded(Host().ort->KernelInfoGetAttribute_float(info_, attribute, &value))) return std::nullopt;
  return value;
}

// The size of a text counts its end, so a present attribute never has size 0.
std::optional<std::string> KernelInfo::String(const char* attribute) const {
  size_t size = 0;
  FromOrt(Host().ort->KernelInfoGetAttribute_string(info_, attribute, nullptr, &size)).IgnoreError();
  if (size == 0) return std::nullopt;
  std::string text(size, '\0');
  if (!Succeeded(Host().ort->KernelInfoGetAttribute_string(info_, attribute, text.data(), &size))) return std::nullopt;
  text.resize(size - 1);
  return text;
}

std::optional<std::vector<int64_t>> KernelInfo::Ints(const char* attribute) const {
  size_t count = 0;
  if (!Succeeded(Host().ort->KernelInfoGetAttributeArray_int64(info_, attribute, nullptr, &count))) return std::nullopt;
  std::vector<int64_t> values(count);
  if (count != 0 &&
      !Succeeded(Host().ort->KernelInfoGetAttributeArray_int64(info_, attribute, values.data(), &count))) {
    return std::nullopt;
  }
  return values;
}

std::optional<std::vector<float>> KernelInfo::Floats(const char* attribute) const {
  size_t count = 0;
  if (!Succeeded(Host().ort->KernelInfoGetAttributeArray_float(info_, attribute, nullptr, &count))) return std::nullopt;
  std::vector<float> values(count);
  if (count != 0 &&
      !Succeeded(Host().ort->KernelInfoGetAttributeArray_float(info_, attribute, values.data(), &count))) {
    return std::nullopt;
  }
  return values;
}

std::optional<std::vector<std::string>> KernelInfo::Strings(const char* attribute) const {
  if (Host().version < kApiStringsAttribute) return std::nullopt;
  OrtAllocator* allocator = nullptr;
  char** texts = nullptr;
  size_t count = 0;
  if (!Succeeded(Host().ort->GetAllocatorWithDefaultOptions(&allocator)) ||
      !Succeeded(Host().ort->KernelInfoGetAttributeArray_string(info_, attribute, allocator, &texts, &count))) {
    return std::nullopt;
  }
  std::vector<std::string> strings(texts, texts + count);
  for (size_t i = 0; i < count; ++i) allocator->Free(allocator, texts[i]);
  if (texts != nullptr) allocator->Free(allocator, static_cast<void*>(texts));
  return strings;
}

std::optional<ops::HostTensor> KernelInfo::Tensor(const char* attribute) const {
  OrtAllocator* allocator = nullptr;
  OrtValue* value = nullptr;
  if (!Succeeded(Host().ort->GetAllocatorWithDefaultOptions(&allocator)) ||
      !Succeeded(Host().ort->KernelInfoGetAttribute_tensor(info_, attribute, allocator, &value))) {
    return std::nullopt;
  }
  auto tensor = CopyHostTensor(value);
  Host().ort->ReleaseValue(value);
  return tensor;
}

}  // namespace cudaep::abi
