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
#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "host_api/host_api.h"

namespace {

using namespace cudaep::host_api;  // NOLINT(google-build-using-namespace)
using Map = std::map<std::string, std::string>;

Map MapOf(const Ort::KeyValuePairs& pairs) {
  const auto entries = pairs.GetKeyValuePairs();
  return {entries.begin(), entries.end()};
}

std::string JsonOf(const Map& entries) {
  std::string text;
  for (const auto& [key, value] : entries) text += (text.empty() ? "" : ", ") + Quoted(key) + ": " + Quoted(value);
  return "{" + text + "}";
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
  Application(const char* plugin, const char* model, const Map& environment)
      : model_(model),
        env_(MakeEnv("memory_host", ORT_LOGGING_LEVEL_WARNING, {environment.begin(), environment.end()})),
        device_(RegisterPlugin(env_, plugin)) {}

  void Open(const Map& entries) {
    Ort::SessionOptions options = AllNodesOn(env_, device_);
    for (const auto& [key, value] : entries) options.AddConfigEntry(key.c_str(), value.c_str());
    sessions_.push_back(std::make_unique<Ort::Session>(env_, model_, options));
  }

  void Close() { sessions_.pop_back(); }

  void ReplaceShared(const std::string& key, const std::string& value) {
    Ort::KeyValuePairs option;
    option.Add(key.c_str(), value.c_str());
    env_.CreateSharedAllocator(device_, OrtDeviceMemoryType_DEFAULT, OrtDeviceAllocator, option);
  }

  Map ExternalEntries() {
    caller_allocator = env_.GetSharedAllocator(DeviceMemory());
    return {{"ep.cuda.gpu_external_alloc", AddressOf(reinterpret_cast<const void*>(CallerAlloc))},
            {"ep.cuda.gpu_external_free", AddressOf(reinterpret_cast<const void*>(CallerFree))},
            {"ep.cuda.gpu_external_empty_cache", AddressOf(reinterpret_cast<const void*>(CallerEmptyCache))}};
  }

  void Run(int64_t rows, const Map& entries) {
    Ort::Session& session = *sessions_.back();
    Ort::AllocatorWithDefaultOptions allocator;
    const Ort::AllocatedStringPtr input = session.GetInputNameAllocated(0, allocator);
    const Ort::AllocatedStringPtr output = session.GetOutputNameAllocated(0, allocator);
    std::vector<int64_t> dims = session.GetInputTypeInfo(0).GetTensorTypeAndShapeInfo().GetShape();
    dims[0] = rows;
    size_t count = 1;
    for (const int64_t dim : dims) count *= static_cast<size_t>(dim);
    std::vector<float> data(count, 1.0f);
    Ort::Value x = Ort::Value::CreateTensor<float>(HostMemory(), data.data(), count, dims.data(), dims.size());
    Ort::RunOptions options;
    for (const auto& [key, value] : entries) options.AddConfigEntry(key.c_str(), value.c_str());
    const char* inputs[] = {input.get()};
    const char* outputs[] = {output.get()};
    session.Run(options, inputs, &x, 1, outputs, 1);
  }

  std::string Stats() {
    std::string text;
    const auto add = [&](const char* name, OrtAllocatorType type, OrtDeviceMemoryType memory) {
      const Map entries = sessions_.empty() ? SharedStatsOf(type, memory) : StatsOf(type, memory);
      if (!entries.empty()) text += (text.empty() ? "" : ", ") + Quoted(name) + ": " + JsonOf(entries);
    };
    add("tensors", OrtDeviceAllocator, OrtDeviceMemoryType_DEFAULT);
    add("weights", OrtReadOnlyAllocator, OrtDeviceMemoryType_DEFAULT);
    add("pinned", OrtDeviceAllocator, OrtDeviceMemoryType_HOST_ACCESSIBLE);
    if (!sessions_.empty()) {  // which says more
      text += ", " + Quoted("shared") + ": " + JsonOf(SharedStatsOf(OrtDeviceAllocator, OrtDeviceMemoryType_DEFAULT));
    }
    return "{" + text + "}";
  }

 private:
  // Empty where the host has no such allocator.
  Map SharedStatsOf(OrtAllocatorType type, OrtDeviceMemoryType memory) {
    const Ort::UnownedAllocator shared = env_.GetSharedAllocator(DeviceMemory(type, memory));
    return shared == nullptr ? Map() : MapOf(shared.GetStats());
  }

  Map StatsOf(OrtAllocatorType type, OrtDeviceMemoryType memory) {
    const Ort::MemoryInfo info = DeviceMemory(type, memory);
    OrtAllocator* found = nullptr;
    const Ort::Status status(Ort::GetApi().CreateAllocator(*sessions_.back(), info, &found));
    const Ort::Allocator allocator(found);
    return found == nullptr ? Map() : MapOf(allocator.GetStats());
  }

  const char* model_;
  Ort::Env env_;
  const OrtEpDevice* device_;
  std::vector<std::unique_ptr<Ort::Session>> sessions_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  std::string version, error, stats;
  try {
    version = LoadHost(argv[1]);
    Map environment, session, run;
    std::vector<std::pair<std::string, std::string>> steps;
    for (int i = 4; i < argc; ++i) {
      const std::string name = argv[i];
      const bool takes_value = name != "--open" && name != "--close" && name != "--external";
      steps.emplace_back(name, takes_value && i + 1 < argc ? argv[++i] : "");
    }
    for (const auto& [name, value] : steps) {
      if (name == "--env") environment.insert(SplitEntry(value));
    }
    Application application(argv[2], argv[3], environment);
    for (const auto& [name, value] : steps) {
      const auto [entry, setting] = SplitEntry(value);
      if (name == "--session") session.insert_or_assign(entry, setting);
      if (name == "--run-entry") run.insert_or_assign(entry, setting);
      if (name == "--external") session.merge(application.ExternalEntries());
      if (name == "--shared") application.ReplaceShared(entry, setting);
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
      Quoted(version).c_str(), Quoted(error).c_str(), callback_allocs.load(), callback_frees.load(),
      callback_trims.load(), stats.c_str());
  return 0;
}
