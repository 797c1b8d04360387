#include "host.h"

#include <cstring>

#include "onnx_model.h"

namespace cudaep::fuzz {
namespace {

constexpr OrtLoggingLevel kLogLevel = ORT_LOGGING_LEVEL_FATAL;
constexpr size_t kMaxInputBytes = size_t{1} << 20;

struct Input {
  std::string name;
  std::vector<int64_t> dims;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  std::string bytes;
};

// False when no moderate tensor can be made for it.
bool Draw(const Ort::TypeInfo& info, Input* input, Random& random) {
  if (info.GetONNXType() != ONNX_TYPE_TENSOR) return false;
  const auto tensor = info.GetTensorTypeAndShapeInfo();
  input->type = tensor.GetElementType();
  input->dims = tensor.GetShape();
  size_t bytes = ElementBytes(input->type);
  if (bytes == 0) return false;
  const int64_t open = random.Between(0, 6);
  for (int64_t& dim : input->dims) {
    if (dim < 0) dim = random.OneIn(4) ? random.Between(0, 6) : open;
    if (dim != 0 && bytes > kMaxInputBytes / static_cast<size_t>(dim)) return false;
    bytes *= static_cast<size_t>(dim);
  }
  input->bytes.resize(bytes);
  const bool whole_numbers = input->type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
  for (size_t at = 0; at < bytes; at += 8) {
    const uint64_t word = whole_numbers ? static_cast<uint64_t>(random.Integer()) : random.Next();
    std::memcpy(input->bytes.data() + at, &word, std::min<size_t>(8, bytes - at));
  }
  if (input->type == ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL) {
    for (char& byte : input->bytes) byte &= 1;
  }
  return true;
}

}  // namespace

Host::Host(const char* library, const char* plugin, bool provider) : plugin_(plugin), provider_(provider) {
  host_api::LoadHost(library);
  Start({});
}

void Host::Start(const std::vector<Setting>& settings) {
  host_api::Entries entries;
  for (const Setting& setting : settings) {
    if (setting.where == Entry::kEnvironment) entries.emplace_back(setting.key, setting.value);
  }
  env_ = host_api::MakeEnv("fuzz", kLogLevel, entries);
  device_ = host_api::RegisterPlugin(env_, plugin_);
}

void Host::Restart(const std::vector<Setting>& settings) {
  device_ = nullptr;
  env_ = Ort::Env(nullptr);
  Start(settings);
}

Outcome Host::TryModel(const std::string& model, const std::vector<Setting>& settings, bool optimize, bool cpu_allowed,
                       Random& random) {
  Outcome outcome;
  try {
    Ort::SessionOptions options;
    options.SetIntraOpNumThreads(1);
    options.SetInterOpNumThreads(1);
    options.SetLogSeverityLevel(kLogLevel);
    options.SetGraphOptimizationLevel(optimize ? ORT_ENABLE_ALL : ORT_DISABLE_ALL);
    host_api::Entries provider_options;
    for (const Setting& setting : settings) {
      if (setting.where == Entry::kSession) options.AddConfigEntry(setting.key.c_str(), setting.value.c_str());
      if (setting.where == Entry::kProviderOption) provider_options.emplace_back(setting.key, setting.value);
    }
    if (provider_) {
      if (!cpu_allowed) options.AddConfigEntry(host_api::kNoCpuFallback, "1");
      host_api::AppendDevice(options, env_, device_, provider_options);
    }
    Ort::Session session(env_, model.data(), model.size(), options);
    outcome.created = true;
    Run(session, &outcome, random);
  } catch (const Ort::Exception& exception) {
    outcome.error = exception.what();
  }
  return outcome;
}

void Host::Run(Ort::Session& session, Outcome* outcome, Random& random) {
  Ort::AllocatorWithDefaultOptions allocator;
  std::vector<Input> inputs;
  std::vector<std::string> output_names;
  for (size_t i = 0; i < session.GetInputCount(); ++i) {
    Input& input = inputs.emplace_back();
    input.name = session.GetInputNameAllocated(i, allocator).get();
    if (!Draw(session.GetInputTypeInfo(i), &input, random)) {
      outcome->skipped = true;
      return;
    }
  }
  // Default values of inputs make valid Runs of valid seeds; now and then they are replaced.
  for (size_t i = 0; i < session.GetOverridableInitializerCount(); ++i) {
    if (!random.OneIn(5)) continue;
    Input input;
    input.name = session.GetOverridableInitializerNameAllocated(i, allocator).get();
    if (Draw(session.GetOverridableInitializerTypeInfo(i), &input, random)) inputs.push_back(std::move(input));
  }
  for (size_t i = 0; i < session.GetOutputCount(); ++i) {
    output_names.emplace_back(session.GetOutputNameAllocated(i, allocator).get());
  }
  const Ort::MemoryInfo memory = host_api::HostMemory();
  std::vector<const char*> names, outputs;
  std::vector<Ort::Value> values;
  for (Input& input : inputs) {
    names.push_back(input.name.c_str());
    values.push_back(Ort::Value::CreateTensor(memory, input.bytes.data(), input.bytes.size(), input.dims.data(),
                                              input.dims.size(), input.type));
  }
  for (const std::string& name : output_names) outputs.push_back(name.c_str());
  session.Run(Ort::RunOptions(), names.data(), values.data(), values.size(), outputs.data(), outputs.size());
  outcome->ran = true;
}

std::string Host::Problem(const Outcome& outcome) {
  // A device that is lost or that refuses work means wrong pointers, races or overruns of ours.
  for (const std::string& error : {outcome.error, DeviceError()}) {
    for (const char* text : {"DEVICE_LOST", "DEVICE_ERROR", "FAILED_PRECONDITION", "unexpected exception"}) {
      if (error.find(text) != std::string::npos) return error;
    }
  }
  if (!provider_) return "";
  const std::pair<OrtAllocatorType, OrtDeviceMemoryType> kinds[] = {
      {OrtDeviceAllocator, OrtDeviceMemoryType_DEFAULT},
      {OrtReadOnlyAllocator, OrtDeviceMemoryType_DEFAULT},
      {OrtDeviceAllocator, OrtDeviceMemoryType_HOST_ACCESSIBLE}};
  for (const auto& [type, memory_type] : kinds) {
    const int64_t held = BytesHeld(type, memory_type);
    if (held != 0) return std::to_string(held) + " bytes are still held after the session is gone";
  }
  return "";
}

// A Run that failed may have left work behind, of which its session's end cannot tell.
std::string Host::DeviceError() {
  const Ort::UnownedAllocator allocator =
      env_.GetSharedAllocator(host_api::DeviceMemory(OrtDeviceAllocator, OrtDeviceMemoryType_DEFAULT));
  if (!provider_ || allocator == nullptr) return "";
  try {
    const int64_t count = 1;
    float zero = 0;
    const Ort::Value source = Ort::Value::CreateTensor<float>(host_api::HostMemory(), &zero, 1, &count, 1);
    Ort::Value target = Ort::Value::CreateTensor<float>(allocator, &count, 1);
    const OrtValue* const from = source;
    OrtValue* const into = target;
    Ort::ThrowOnError(Ort::GetApi().CopyTensors(env_, &from, &into, nullptr, 1));
  } catch (const Ort::Exception& exception) {
    return exception.what();
  }
  return "";
}

int64_t Host::BytesHeld(OrtAllocatorType type, OrtDeviceMemoryType memory_type) {
  const Ort::UnownedAllocator allocator = env_.GetSharedAllocator(host_api::DeviceMemory(type, memory_type));
  if (allocator == nullptr) return 0;
  const Ort::KeyValuePairs stats = allocator.GetStats();
  const char* text = stats.GetValue("InUse");
  return text == nullptr ? -1 : std::atoll(text);
}

}  // namespace cudaep::fuzz
