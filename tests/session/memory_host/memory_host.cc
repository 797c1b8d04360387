// Runs a model through stock ONNX Runtime's C++ interface and prints what its allocators say, as one JSON object.
//
//   memory_host LIBONNXRUNTIME PLUGIN MODEL [--env KEY=VALUE] [--session KEY=VALUE] [--open] [--close]
//               [--run ROWS] [--run-entry KEY=VALUE] [--stats NAME] [--external] [--shared KEY=VALUE]
//
// Steps are done in the order given: --session entries count for the sessions opened after them, --run uses the last
// session and feeds its only input, [ROWS, columns] of floats. --stats records the statistics of the last session's
// allocators under NAME, or of the shared ones where no session is open. --external: sessions opened after it take
// their memory through callbacks, from the environment's shared allocator; the calls are counted. --shared: replaces
// the shared allocator by one with this option. An error of the host
// ends the program normally, as "error" in the output, after the step that had it.
#include <dlfcn.h>

#define ORT_API_MANUAL_INIT
#include <onnxruntime_cxx_api.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

using Entries = std::map<std::string, std::string>;
constexpr const char* kName = "CUDAExecutionProvider";

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      out += c;
    }
  }
  return out + "\"";
}

Entries EntriesOf(const OrtKeyValuePairs* pairs) {
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  size_t count = 0;
  Ort::GetApi().GetKeyValuePairs(pairs, &keys, &values, &count);
  Entries entries;
  for (size_t i = 0; i < count; ++i) entries[keys[i]] = values[i];
  return entries;
}

std::string JsonOf(const Entries& entries) {
  std::string text;
  for (const auto& [key, value] : entries) text += (text.empty() ? "" : ", ") + Quoted(key) + ": " + Quoted(value);
  return "{" + text + "}";
}

std::pair<std::string, std::string> Split(const std::string& entry) {
  const size_t at = entry.find('=');
  return {entry.substr(0, at), at == std::string::npos ? "" : entry.substr(at + 1)};
}

// The caller's allocator of --external.
OrtAllocator* caller_allocator = nullptr;
std::atomic<int> callback_allocs{0}, callback_frees{0}, callback_trims{0};

void* CallerAlloc(size_t bytes) {
  ++callback_allocs;
  return caller_allocator->Alloc(caller_allocator, bytes);
}
void CallerFree(void* pointer) {
  ++callback_frees;
  caller_allocator->Free(caller_allocator, pointer);
}
void CallerEmptyCache() { ++callback_trims; }

std::string AddressOf(const void* function) { return std::to_string(reinterpret_cast<uintptr_t>(function)); }

class Application {
 public:
  Application(const char* plugin, const char* model) : plugin_(plugin), model_(model) {}

  void Start(const Entries& environment) {
    const OrtApi& api = Ort::GetApi();
    OrtKeyValuePairs* pairs = nullptr;
    api.CreateKeyValuePairs(&pairs);
    for (const auto& [key, value] : environment) api.AddKeyValuePair(pairs, key.c_str(), value.c_str());
    OrtEnvCreationOptions options{};
    options.version = 24;
    options.logging_severity_level = ORT_LOGGING_LEVEL_WARNING;
    options.log_id = "memory_host";
    options.config_entries = pairs;
    OrtEnv* env = nullptr;
    OrtStatus* status = api.CreateEnvWithOptions(&options, &env);
    api.ReleaseKeyValuePairs(pairs);
    Ort::ThrowOnError(status);
    env_ = Ort::Env(env);
    Ort::ThrowOnError(api.RegisterExecutionProviderLibrary(env_, kName, plugin_));
    const OrtEpDevice* const* devices = nullptr;
    size_t count = 0;
    Ort::ThrowOnError(api.GetEpDevices(env_, &devices, &count));
    for (size_t i = 0; i < count && device_ == nullptr; ++i) {
      if (std::strcmp(api.EpDevice_EpName(devices[i]), kName) == 0) device_ = devices[i];
    }
    if (device_ == nullptr) throw Ort::Exception("no device", ORT_FAIL);
  }

  void Open(const Entries& entries) {
    Ort::SessionOptions options;
    for (const auto& [key, value] : entries) options.AddConfigEntry(key.c_str(), value.c_str());
    options.AddConfigEntry("session.disable_cpu_ep_fallback", "1");
    Ort::ThrowOnError(
        Ort::GetApi().SessionOptionsAppendExecutionProvider_V2(options, env_, &device_, 1, nullptr, nullptr, 0));
    sessions_.push_back(std::make_unique<Ort::Session>(env_, model_, options));
  }

  void Close() { sessions_.pop_back(); }

  void ReplaceShared(const std::pair<std::string, std::string>& option) {
    const OrtApi& api = Ort::GetApi();
    OrtKeyValuePairs* pairs = nullptr;
    api.CreateKeyValuePairs(&pairs);
    api.AddKeyValuePair(pairs, option.first.c_str(), option.second.c_str());
    OrtAllocator* allocator = nullptr;
    OrtStatus* status =
        api.CreateSharedAllocator(env_, device_, OrtDeviceMemoryType_DEFAULT, OrtDeviceAllocator, pairs, &allocator);
    api.ReleaseKeyValuePairs(pairs);
    Ort::ThrowOnError(status);
  }

  Entries ExternalEntries() {
    OrtMemoryInfo* info = nullptr;
    Ort::ThrowOnError(Ort::GetApi().CreateMemoryInfo_V2("Cuda", OrtMemoryInfoDeviceType_GPU, 0x10de, 0,
                                                        OrtDeviceMemoryType_DEFAULT, 0, OrtDeviceAllocator, &info));
    const Ort::MemoryInfo owner(info);
    Ort::ThrowOnError(Ort::GetApi().GetSharedAllocator(env_, info, &caller_allocator));
    return {{"ep.cuda.gpu_external_alloc", AddressOf(reinterpret_cast<const void*>(CallerAlloc))},
            {"ep.cuda.gpu_external_free", AddressOf(reinterpret_cast<const void*>(CallerFree))},
            {"ep.cuda.gpu_external_empty_cache", AddressOf(reinterpret_cast<const void*>(CallerEmptyCache))}};
  }

  void Run(int64_t rows, const Entries& entries) {
    Ort::Session& session = *sessions_.back();
    Ort::AllocatorWithDefaultOptions allocator;
    const Ort::AllocatedStringPtr input = session.GetInputNameAllocated(0, allocator);
    const Ort::AllocatedStringPtr output = session.GetOutputNameAllocated(0, allocator);
    std::vector<int64_t> dims = session.GetInputTypeInfo(0).GetTensorTypeAndShapeInfo().GetShape();
    dims[0] = rows;
    size_t count = 1;
    for (const int64_t dim : dims) count *= static_cast<size_t>(dim);
    std::vector<float> data(count, 1.0f);
    const Ort::MemoryInfo memory = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
    Ort::Value x = Ort::Value::CreateTensor<float>(memory, data.data(), count, dims.data(), dims.size());
    Ort::RunOptions options;
    for (const auto& [key, value] : entries) options.AddConfigEntry(key.c_str(), value.c_str());
    const char* inputs[] = {input.get()};
    const char* outputs[] = {output.get()};
    session.Run(options, inputs, &x, 1, outputs, 1);
  }

  std::string Stats() {
    std::string text;
    const auto add = [&](const char* name, OrtAllocatorType type, OrtDeviceMemoryType memory) {
      const Entries entries = StatsOf(type, memory);
      if (!entries.empty()) text += (text.empty() ? "" : ", ") + Quoted(name) + ": " + JsonOf(entries);
    };
    add("tensors", OrtDeviceAllocator, OrtDeviceMemoryType_DEFAULT);
    add("weights", OrtReadOnlyAllocator, OrtDeviceMemoryType_DEFAULT);
    add("pinned", OrtDeviceAllocator, OrtDeviceMemoryType_HOST_ACCESSIBLE);
    return "{" + text + "}";
  }

 private:
  // Empty where the host has no such allocator.
  Entries StatsOf(OrtAllocatorType type, OrtDeviceMemoryType memory_type) {
    const OrtApi& api = Ort::GetApi();
    OrtMemoryInfo* info = nullptr;
    const char* name = memory_type == OrtDeviceMemoryType_DEFAULT ? "Cuda" : "CudaPinned";
    Ort::ThrowOnError(
        api.CreateMemoryInfo_V2(name, OrtMemoryInfoDeviceType_GPU, 0x10de, 0, memory_type, 0, type, &info));
    const Ort::MemoryInfo owner(info);
    OrtAllocator* allocator = nullptr;
    OrtStatus* status = sessions_.empty() ? api.GetSharedAllocator(env_, info, &allocator)
                                          : api.CreateAllocator(*sessions_.back(), info, &allocator);
    if (status != nullptr || allocator == nullptr) {
      api.ReleaseStatus(status);
      return {};
    }
    OrtKeyValuePairs* pairs = nullptr;
    Ort::ThrowOnError(api.AllocatorGetStats(allocator, &pairs));
    Entries entries = EntriesOf(pairs);
    api.ReleaseKeyValuePairs(pairs);
    if (!sessions_.empty()) api.ReleaseAllocator(allocator);
    return entries;
  }

  const char* plugin_;
  const char* model_;
  Ort::Env env_{nullptr};
  const OrtEpDevice* device_ = nullptr;
  std::vector<std::unique_ptr<Ort::Session>> sessions_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
  auto* get_base = library == nullptr
                       ? nullptr
                       : reinterpret_cast<const OrtApiBase* (*)() noexcept>(dlsym(library, "OrtGetApiBase"));
  if (get_base == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 2;
  unsigned minor = 0;
  std::sscanf(get_base()->GetVersionString(), "%*u.%u", &minor);
  Ort::InitApi(get_base()->GetApi(minor < ORT_API_VERSION ? minor : ORT_API_VERSION));

  std::string error, stats;
  try {
    Application application(argv[2], argv[3]);
    Entries environment, session, run;
    std::vector<std::pair<std::string, std::string>> steps;
    for (int i = 4; i < argc; ++i) {
      const std::string name = argv[i];
      const bool takes_value = name != "--open" && name != "--close" && name != "--external";
      steps.emplace_back(name, takes_value && i + 1 < argc ? argv[++i] : "");
    }
    for (const auto& [name, value] : steps) {
      if (name == "--env") environment.insert(Split(value));
    }
    application.Start(environment);
    for (const auto& [name, value] : steps) {
      if (name == "--session") session.insert_or_assign(Split(value).first, Split(value).second);
      if (name == "--run-entry") run.insert_or_assign(Split(value).first, Split(value).second);
      if (name == "--external") session.merge(application.ExternalEntries());
      if (name == "--shared") application.ReplaceShared(Split(value));
      if (name == "--open") application.Open(session);
      if (name == "--close") application.Close();
      if (name == "--run") application.Run(std::stoll(value), run);
      if (name == "--stats") stats += (stats.empty() ? "" : ", ") + Quoted(value) + ": " + application.Stats();
    }
  } catch (const std::exception& exception) {
    error = exception.what();
  }
  std::printf(
      "{\"host\": %s, \"error\": %s, \"callbacks\": {\"alloc\": %d, \"free\": %d, \"empty_cache\": %d}, "
      "\"stats\": {%s}}\n",
      Quoted(get_base()->GetVersionString()).c_str(), Quoted(error).c_str(), callback_allocs.load(),
      callback_frees.load(), callback_trims.load(), stats.c_str());
  return 0;
}
