// profile_host HOST PLUGIN MODEL FOLDER THREADS RUNS [KEY=VALUE...]
//
// One session with these provider options and several threads over it; every second Run of each is profiled by itself,
// into FOLDER/<thread>_<run>_*.json. With enable_cuda_graph=1 each thread has a graph of its own, on inputs and outputs
// in device memory. The model has one input and one output of four floats; exit code 0 when all Runs succeeded.
#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "host_api/host_api.h"

namespace cudaep::profile_host {
namespace {

using namespace cudaep::host_api;  // NOLINT(google-build-using-namespace)

constexpr int64_t kShape[] = {4};

struct Application {
  Ort::Env env{nullptr};
  Ort::Session session{nullptr};
  std::string folder;
  bool graphs = false;
};

void Check(OrtStatus* status) {
  if (status != nullptr) Ort::ThrowOnError(status);
}

void RunThread(Application& app, int thread, int runs) {
  const OrtApi& api = Ort::GetApi();
  std::vector<float> x(4, static_cast<float>(thread)), y(4);
  Ort::Value input = Ort::Value::CreateTensor<float>(HostMemory(), x.data(), x.size(), kShape, 1);
  Ort::Value output = Ort::Value::CreateTensor<float>(HostMemory(), y.data(), y.size(), kShape, 1);
  Ort::IoBinding binding(app.session);
  if (app.graphs) {
    OrtAllocator* allocator = app.env.GetSharedAllocator(DeviceMemory());
    input = Ort::Value::CreateTensor<float>(allocator, kShape, 1);
    output = Ort::Value::CreateTensor<float>(allocator, kShape, 1);
  }
  binding.BindInput("v0", input);
  binding.BindOutput("y", output);
  for (int run = 0; run < runs; ++run) {
    Ort::RunOptions options;
    options.AddConfigEntry("gpu_graph_id", std::to_string(thread).c_str());
    const std::string prefix = app.folder + "/" + std::to_string(thread) + "_" + std::to_string(run);
    if (run % 2 == 0) Check(api.RunOptionsEnableProfiling(options, prefix.c_str()));
    app.session.Run(options, binding);
  }
}

int Main(int argc, char** argv) {
  if (argc < 7) return 2;
  try {
    LoadHost(argv[1]);
    Application app;
    app.env = MakeEnv("profile_host", ORT_LOGGING_LEVEL_WARNING);
    const OrtEpDevice* const device = RegisterPlugin(app.env, argv[2]);
    app.folder = argv[4];
    Entries options;
    for (int i = 7; i < argc; ++i) {
      options.push_back(SplitEntry(argv[i]));
      app.graphs = app.graphs || options.back().first == "enable_cuda_graph";
    }
    const Ort::SessionOptions settings = AllNodesOn(app.env, device, options);
    app.session = Ort::Session(app.env, argv[3], settings);
    std::atomic<int> failures{0};
    std::vector<std::thread> threads;
    for (int thread = 0; thread < std::stoi(argv[5]); ++thread) {
      threads.emplace_back([&, thread] {
        try {
          RunThread(app, thread, std::stoi(argv[6]));
        } catch (const std::exception& error) {
          std::fprintf(stderr, "thread %d: %s\n", thread, error.what());
          ++failures;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return failures.load() == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "%s\n", error.what()), 1;
  }
}

}  // namespace
}  // namespace cudaep::profile_host

int main(int argc, char** argv) { return cudaep::profile_host::Main(argc, argv); }
