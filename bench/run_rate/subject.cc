#include "subject.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace cudaep::run_rate {
namespace {

using host_api::Fail;

Ort::SessionOptions BaseOptions() {
  Ort::SessionOptions options;
  options.SetIntraOpNumThreads(1);  // the threads that run are ours alone
  options.SetInterOpNumThreads(1);
  return options;
}

void AppendBuiltIn(Ort::SessionOptions& options, const host_api::Entries& entries) {
  const OrtApi& api = Ort::GetApi();
  OrtCUDAProviderOptionsV2* cuda = nullptr;
  Ort::ThrowOnError(api.CreateCUDAProviderOptions(&cuda));
  std::vector<const char*> keys, values;
  for (const auto& [key, value] : entries) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  Ort::Status status(api.UpdateCUDAProviderOptions(cuda, keys.data(), values.data(), keys.size()));
  if (status.IsOK()) status = Ort::Status(api.SessionOptionsAppendExecutionProvider_CUDA_V2(options, cuda));
  api.ReleaseCUDAProviderOptions(cuda);
  if (!status.IsOK()) Fail(status.GetErrorMessage());
}

// Numbers are drawn for floats; anything else is zero, which is a valid index, length and flag.
Ort::Value Draw(const Ort::TypeInfo& type, int64_t free_dim, std::mt19937& random) {
  if (type.GetONNXType() != ONNX_TYPE_TENSOR) Fail("an input is no tensor");
  const auto info = type.GetTensorTypeAndShapeInfo();
  std::vector<int64_t> dims = info.GetShape();
  for (int64_t& dim : dims) dim = dim < 0 ? free_dim : dim;
  Ort::AllocatorWithDefaultOptions allocator;
  Ort::Value value = Ort::Value::CreateTensor(allocator, dims.data(), dims.size(), info.GetElementType());
  std::memset(value.GetTensorMutableRawData(), 0, value.GetTensorSizeInBytes());
  if (info.GetElementType() == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) {
    std::uniform_real_distribution<float> numbers(-1.0f, 1.0f);
    float* data = value.GetTensorMutableData<float>();
    std::generate_n(data, value.GetTensorSizeInBytes() / sizeof(float), [&] { return numbers(random); });
  }
  return value;
}

// Infinite for a NaN where a number belongs.
double DifferenceOf(const Ort::Value& expected, const Ort::Value& found) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const auto info = expected.GetTensorTypeAndShapeInfo(), other = found.GetTensorTypeAndShapeInfo();
  const size_t bytes = expected.GetTensorSizeInBytes();
  if (info.GetElementType() != other.GetElementType() || info.GetShape() != other.GetShape()) return kInfinite;
  if (info.GetElementType() != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) {
    return std::memcmp(expected.GetTensorRawData(), found.GetTensorRawData(), bytes) == 0 ? 0 : kInfinite;
  }
  const float *a = expected.GetTensorData<float>(), *b = found.GetTensorData<float>();
  double largest = 0, difference = 0;
  for (size_t i = 0; i < bytes / sizeof(float); ++i) {
    const double apart = a[i] == b[i] ? 0 : std::abs(double{a[i]} - b[i]);
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (!std::isfinite(apart)) return kInfinite;
    if (std::isfinite(a[i])) largest = std::max(largest, std::abs(double{a[i]}));
    difference = std::max(difference, apart);
  }
  return difference == 0 ? 0 : difference / std::max(largest, 1e-30);
}

std::vector<const char*> Pointers(const std::vector<std::string>& names) {
  std::vector<const char*> pointers;
  for (const std::string& name : names) pointers.push_back(name.c_str());
  return pointers;
}

}  // namespace

Ort::Value OnHost(const Ort::Value& like) {
  const auto info = like.GetTensorTypeAndShapeInfo();
  const std::vector<int64_t> dims = info.GetShape();
  Ort::AllocatorWithDefaultOptions allocator;
  return Ort::Value::CreateTensor(allocator, dims.data(), dims.size(), info.GetElementType());
}

Subject::Subject(const Settings& settings)
    : settings_(settings), env_(host_api::MakeEnv("run_rate", ORT_LOGGING_LEVEL_ERROR)) {
  Ort::SessionOptions options = BaseOptions();
  if (!settings.cpu_allowed) options.AddConfigEntry(host_api::kNoCpuFallback, "1");
  if (settings.plugin == nullptr) {
    AppendBuiltIn(options, settings.options);
  } else {
    device_ = host_api::RegisterPlugin(env_, settings.plugin);
    host_api::AppendDevice(options, env_, device_, settings.options);
  }
  session_ = Ort::Session(env_, settings.model, options);
  allocator_ = Ort::Allocator(session_, settings.plugin != nullptr
                                            ? host_api::DeviceMemory()
                                            : Ort::MemoryInfo("Cuda", OrtDeviceAllocator, 0, OrtMemTypeDefault));
  input_names_ = session_.GetInputNames();
  output_names_ = session_.GetOutputNames();
  Ort::Session reference(env_, settings.model, BaseOptions());
  for (size_t variant = 0; variant < kVariants; ++variant) {
    std::mt19937 random(static_cast<unsigned>(variant) + 1);
    Values& drawn = inputs_.emplace_back();
    for (size_t i = 0; i < input_names_.size(); ++i) {
      drawn.push_back(Draw(session_.GetInputTypeInfo(i), settings.free_dim, random));
    }
    expected_.push_back(RunOnHost(reference, variant));
    Compare(expected_.back(), RunOnHost(session_, variant));
  }
}

Values Subject::RunOnHost(Ort::Session& on, size_t variant) const {
  const std::vector<const char*> inputs = Pointers(input_names_), outputs = Pointers(output_names_);
  return on.Run(Ort::RunOptions(), inputs.data(), Inputs(variant).data(), inputs.size(), outputs.data(),
                outputs.size());
}

double Subject::Compare(const Values& expected, const Values& found) const {
  double largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, DifferenceOf(expected[i], found[i]));
    if (largest > settings_.tolerance) {
      Fail("output " + output_names_[i] + " differs by " + std::to_string(largest) + " of its largest number");
    }
  }
  return largest;
}

Ort::Value Subject::OnDevice(const Ort::Value& like) const {
  const auto info = like.GetTensorTypeAndShapeInfo();
  const std::vector<int64_t> dims = info.GetShape();
  OrtValue* value = nullptr;
  Ort::ThrowOnError(
      Ort::GetApi().CreateTensorAsOrtValue(allocator_, dims.data(), dims.size(), info.GetElementType(), &value));
  return Ort::Value(value);
}

void Subject::Copy(const Ort::Value& from, Ort::Value& to) const {
  const Ort::Status status = env_.CopyTensor(from, to, nullptr);
  if (!status.IsOK()) Fail(status.GetErrorMessage());
}

}  // namespace cudaep::run_rate
