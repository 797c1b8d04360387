#include "host_api/host_api.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace cudaep::host_api {
namespace {

constexpr uint32_t kNvidia = 0x10de;  // PCI vendor

Ort::KeyValuePairs PairsOf(const Entries& entries) {
  Ort::KeyValuePairs pairs;
  for (const auto& [key, value] : entries) pairs.Add(key.c_str(), value.c_str());
  return pairs;
}

}  // namespace

void Fail(const std::string& text) { throw Ort::Exception(text, ORT_FAIL); }

std::string LoadHost(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
  auto* get_base =
      handle == nullptr ? nullptr : reinterpret_cast<const OrtApiBase* (*)() noexcept>(dlsym(handle, "OrtGetApiBase"));
  if (get_base == nullptr) Fail(dlerror());
  const char* version = get_base()->GetVersionString();
  unsigned minor = 0;
  std::sscanf(version, "%*u.%u", &minor);
  Ort::InitApi(get_base()->GetApi(std::min<unsigned>(minor, ORT_API_VERSION)));
  return version;
}

Ort::Env MakeEnv(const char* log_id, OrtLoggingLevel level, const Entries& entries) {
  const Ort::KeyValuePairs pairs = PairsOf(entries);
  OrtEnvCreationOptions options{};
  options.version = 24;  // the oldest supported host's, which has all that is set here
  options.logging_severity_level = level;
  options.log_id = log_id;
  options.config_entries = pairs;
  return Ort::Env(&options);
}

const OrtEpDevice* RegisterPlugin(Ort::Env& env, const char* plugin) {
  env.RegisterExecutionProviderLibrary(kProvider, std::filesystem::absolute(plugin));  // it looks beside itself
  for (const Ort::ConstEpDevice& device : env.GetEpDevices()) {
    if (std::strcmp(device.EpName(), kProvider) == 0) return device;
  }
  Fail("the plug-in offers no device");
}

void AppendDevice(Ort::SessionOptions& options, Ort::Env& env, const OrtEpDevice* device,
                  const Entries& provider_options) {
  std::vector<const char*> keys, values;
  for (const auto& [key, value] : provider_options) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  Ort::ThrowOnError(Ort::GetApi().SessionOptionsAppendExecutionProvider_V2(options, env, &device, 1, keys.data(),
                                                                           values.data(), keys.size()));
}

Ort::SessionOptions AllNodesOn(Ort::Env& env, const OrtEpDevice* device, const Entries& provider_options) {
  Ort::SessionOptions options;
  options.AddConfigEntry(kNoCpuFallback, "1");
  AppendDevice(options, env, device, provider_options);
  return options;
}

Ort::MemoryInfo DeviceMemory(OrtAllocatorType type, OrtDeviceMemoryType memory) {
  const char* name = memory == OrtDeviceMemoryType_DEFAULT ? "Cuda" : "CudaPinned";
  return Ort::MemoryInfo(name, OrtMemoryInfoDeviceType_GPU, kNvidia, 0, memory, 0, type);
}

Ort::MemoryInfo HostMemory() { return Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault); }

Ort::SyncStream MakeStream(const OrtEpDevice* device, const Entries& options) {
  const Ort::KeyValuePairs pairs = PairsOf(options);
  OrtSyncStream* stream = nullptr;
  Ort::ThrowOnError(Ort::GetApi().CreateSyncStreamForEpDevice(device, pairs, &stream));
  return Ort::SyncStream(stream);
}

std::pair<std::string, std::string> SplitEntry(const std::string& entry) {
  const size_t at = entry.find('=');
  return {entry.substr(0, at), at == std::string::npos ? "" : entry.substr(at + 1)};
}

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out + "\"";
}

}  // namespace cudaep::host_api
