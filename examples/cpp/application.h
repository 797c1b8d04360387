// What the examples share: the provider is registered, a session is opened on a device, and tensors are made.
#pragma once

#include <onnxruntime_cxx_api.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

using Options = std::unordered_map<std::string, std::string>;

struct Application {
  Ort::Env env{ORT_LOGGING_LEVEL_WARNING, "example"};
  std::vector<Ort::ConstEpDevice> devices;  // ours, one a GPU

  Application() {
    const char* other = std::getenv("ORT_CUDA_EP_LIBRARY");
    env.RegisterExecutionProviderLibrary(PROVIDER_NAME, other != nullptr ? other : PROVIDER_LIBRARY);
    for (const Ort::ConstEpDevice& device : env.GetEpDevices()) {
      if (device.EpName() == std::string_view(PROVIDER_NAME)) devices.push_back(device);
    }
    if (devices.empty()) throw Ort::Exception("there is no GPU; `ort-cuda-ep doctor` says why", ORT_EP_FAIL);
  }

  // Sessions on the first device; nodes that the provider lacks run on the CPU, unless `require_all_compute_nodes`
  // is 1.
  Ort::Session Open(const char* model, const Options& options = {}) {
    Ort::SessionOptions settings;
    settings.AppendExecutionProvider_V2(env, {devices.front()}, options);
    return Ort::Session(env, model, settings);
  }

  // Device memory, of the allocator that the first device's sessions share.
  Ort::UnownedAllocator DeviceAllocator() {
    return env.GetSharedAllocator(devices.front().GetMemoryInfo(OrtDeviceMemoryType_DEFAULT));
  }
};

// The examples take models with one input and one output of floats; open dimensions are 1.
struct Form {
  std::string name;
  std::vector<int64_t> dims;
  size_t count;

  static Form Of(std::string name, const Ort::TypeInfo& info) {
    const auto tensor = info.GetTensorTypeAndShapeInfo();
    if (tensor.GetElementType() != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT)
      throw Ort::Exception(name + " is not a tensor of floats", ORT_INVALID_ARGUMENT);
    std::vector<int64_t> dims = tensor.GetShape();
    for (int64_t& dim : dims) dim = dim < 0 ? 1 : dim;
    const int64_t count = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
    return {std::move(name), std::move(dims), static_cast<size_t>(count)};
  }
  static Form Input(const Ort::Session& session) {
    Ort::AllocatorWithDefaultOptions allocator;
    return Of(session.GetInputNameAllocated(0, allocator).get(), session.GetInputTypeInfo(0));
  }
  static Form Output(const Ort::Session& session) {
    Ort::AllocatorWithDefaultOptions allocator;
    return Of(session.GetOutputNameAllocated(0, allocator).get(), session.GetOutputTypeInfo(0));
  }

  // A tensor of these dimensions in the caller's `data`, which stays alive as long as it.
  Ort::Value Host(std::vector<float>& data) const {
    static const auto memory = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
    return Ort::Value::CreateTensor<float>(memory, data.data(), data.size(), dims.data(), dims.size());
  }
  Ort::Value Device(Ort::UnownedAllocator allocator) const {
    return Ort::Value::CreateTensor<float>(allocator, dims.data(), dims.size());
  }
  // Some values, other ones for each seed.
  std::vector<float> Values(unsigned seed) const {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>((i * 7 + seed * 13) % 23) / 11.0f - 1.0f;
    return values;
  }
};

// The output of a Run from host memory to host memory.
inline std::vector<float> Run(Ort::Session& session, std::vector<float> values, const Ort::RunOptions& run = {}) {
  const Form in = Form::Input(session), out = Form::Output(session);
  const char *const in_name = in.name.c_str(), *const out_name = out.name.c_str();
  const Ort::Value x = in.Host(values);
  const std::vector<Ort::Value> results = session.Run(run, &in_name, &x, 1, &out_name, 1);
  const float* data = results[0].GetTensorData<float>();
  return {data, data + results[0].GetTensorTypeAndShapeInfo().GetElementCount()};
}

// main of an example: `work` gets the path of the model.
inline int RunExample(int argc, char** argv, const std::function<void(Application&, const char* model)>& work) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s MODEL.onnx\n", argv[0]);
    return 2;
  }
  try {
    Application application;
    work(application, argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
