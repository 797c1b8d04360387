#include "abi/kernel_info.h"

#include "abi/host_tensor.h"
#include "abi/type_info.h"

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
DataType ReadType(F&& read) {
  OrtTypeInfo* type = nullptr;
  if (!FromOrt(read(&type)).ok() || type == nullptr) return DataType::kUndefined;
  const DataType element = ElementTypeOf(type);
  Host().ort->ReleaseTypeInfo(type);
  return element;
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

std::optional<ops::TensorView> KernelInfo::host_constant(int index) const {
  int is_constant = 0;
  const OrtValue* value = nullptr;
  if (!Succeeded(
          Host().ort->KernelInfoGetConstantInput_tensor(info_, static_cast<size_t>(index), &is_constant, &value)) ||
      is_constant == 0) {
    return std::nullopt;
  }
  const OrtMemoryDevice* memory = Host().ep->Value_GetMemoryDevice(value);
  if (Host().ep->MemoryDevice_GetDeviceType(memory) != OrtMemoryInfoDeviceType_CPU &&
      Host().ep->MemoryDevice_GetMemoryType(memory) != OrtDeviceMemoryType_HOST_ACCESSIBLE) {
    return std::nullopt;
  }
  ops::TensorView view;
  if (!ViewTensor(value, &view).ok()) return std::nullopt;
  return view;
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

std::optional<std::string> KernelInfo::String(const char* attribute) const {
  std::string text;
  const Status status = ReadText(text, [&](char* out, size_t* size) {
    return Host().ort->KernelInfoGetAttribute_string(info_, attribute, out, size);
  });
  if (!status.ok() || text.empty()) return std::nullopt;
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

}  // namespace cudaep::abi
