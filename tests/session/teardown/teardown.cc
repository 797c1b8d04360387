// Makes one of everything on the plug-in, through stock ONNX Runtime's C ABI, and destroys it in a given order.
//
//   TEARDOWN_HOST=LIBONNXRUNTIME teardown PLUGIN MODEL [--when end|atexit|static] [--lost] ORDER...
//
// MODEL adds its only input, a vector of floats, to itself. An ORDER is a string of letters, one for each object; one
// that has no letter lives until the process ends:
//   S session   B I/O binding of it   V device value that a bound Run made   A allocator of the session
//   W device value made with A (must go before A)   H device value of the shared allocator   T stream made by the
//   application   L the library's registration (must go after all of these)   E environment
// Orders are done one after the other, each with new objects; the last one at the end of main, in an atexit handler or
// in a static object's destructor. Prints, as one JSON line an order, whether the library is still mapped, and with
// --lost, where calls are meant to fail, what they said. Without it, any error is exit code 4.
#include <dlfcn.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host_api/host_api.h"

namespace {

using namespace cudaep::host_api;  // NOLINT(google-build-using-namespace)

const char* plugin = nullptr;
const char* model = nullptr;
bool lost = false;
std::vector<std::string> errors;

// Runs a step; its error is noted where errors are meant to be, and ends the program elsewhere.
template <class F>
void Step(const char* name, F&& step) {
  try {
    step();
  } catch (const Ort::Exception& exception) {
    if (!lost) {
      std::fprintf(stderr, "%s: %s\n", name, exception.what());
      std::_Exit(4);
    }
    errors.push_back(std::string(name) + ": " + exception.what());
  }
}

bool IsMapped() {
  std::ifstream maps("/proc/self/maps");
  const std::string path = plugin;
  for (std::string line; std::getline(maps, line);) {
    if (line.ends_with(path)) return true;
  }
  return false;
}

class Objects {
 public:
  Objects() {
    env_.emplace(MakeEnv("teardown", ORT_LOGGING_LEVEL_FATAL));
    device_ = RegisterPlugin(*env_, plugin);
    memory_ = DeviceMemory();
    Step("session", [&] {
      Ort::SessionOptions options = AllNodesOn(*env_, device_);
      options.SetIntraOpNumThreads(1);
      session_.emplace(*env_, model, options);
    });
    if (!session_) return;
    const int64_t dims[] = {4};
    Step("binding", [&] {
      binding_.emplace(*session_);
      binding_->BindInput("x", Ort::Value::CreateTensor<float>(HostMemory(), data_, 4, dims, 1));
      binding_->BindOutput("y", memory_);
    });
    for (int run = 0; run < (lost ? 3 : 1); ++run) {
      Step("run", [&] { session_->Run(Ort::RunOptions(), *binding_); });
    }
    Step("output", [&] {
      auto values = binding_->GetOutputValues();
      if (!values.empty()) output_ = std::move(values[0]);
    });
    Step("allocator", [&] {
      allocator_.emplace(*session_, memory_);
      own_ = Ort::Value::CreateTensor<float>(*allocator_, dims, 1);
    });
    Step("shared allocator",
         [&] { shared_ = Ort::Value::CreateTensor<float>(env_->GetSharedAllocator(memory_), dims, 1); });
    Step("stream", [&] { stream_ = MakeStream(device_); });
    Step("copy", [&] { Check(); });
  }

  // A host that lost the device still destroys; objects that were never made are skipped.
  void Destroy(const std::string& order) {
    for (const char letter : order) {
      switch (letter) {
        case 'S':
          session_.reset();
          break;
        case 'B':
          binding_.reset();
          break;
        case 'V':
          output_ = Ort::Value(nullptr);
          break;
        case 'W':
          own_ = Ort::Value(nullptr);
          break;
        case 'A':
          allocator_.reset();
          break;
        case 'H':
          shared_ = Ort::Value(nullptr);
          break;
        case 'T':
          stream_ = Ort::SyncStream(nullptr);
          break;
        case 'L':
          env_->UnregisterExecutionProviderLibrary(kProvider);
          break;
        case 'E':
          env_.reset();
          break;
        default:
          std::fprintf(stderr, "no object has the letter %c\n", letter);
          std::_Exit(2);
      }
    }
  }

  // What lives on: nothing may run when the process ends. Ort's own destructors would still be called otherwise.
  void Forget() {
    if (session_) session_->release();
    if (binding_) binding_->release();
    if (allocator_) allocator_->release();
    if (env_) env_->release();
    output_.release();
    own_.release();
    shared_.release();
    memory_.release();
    stream_.release();
  }

 private:
  void Check() {
    float back[4] = {};
    const int64_t dims[] = {4};
    Ort::Value to = Ort::Value::CreateTensor<float>(HostMemory(), back, 4, dims, 1);
    const OrtValue* const from[] = {output_};
    OrtValue* const into[] = {to};
    if (from[0] == nullptr) return;
    Ort::ThrowOnError(Ort::GetApi().CopyTensors(*env_, from, into, nullptr, 1));
    if (back[3] != 8) throw Ort::Exception("the sum is wrong", ORT_FAIL);
  }

  float data_[4] = {1, 2, 3, 4};
  std::optional<Ort::Env> env_;
  const OrtEpDevice* device_ = nullptr;
  Ort::MemoryInfo memory_{nullptr};
  std::optional<Ort::Session> session_;
  std::optional<Ort::IoBinding> binding_;
  std::optional<Ort::Allocator> allocator_;
  Ort::Value output_{nullptr}, own_{nullptr}, shared_{nullptr};
  Ort::SyncStream stream_{nullptr};
};

long VirtualPages() {
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages;
}

void Report(const std::string& order) {
  std::string text;
  for (const std::string& error : errors) text += (text.empty() ? "" : ", ") + Quoted(error);
  errors.clear();
  std::printf("{\"order\": \"%s\", \"mapped\": %s, \"virtual_pages\": %ld, \"errors\": [%s]}\n", order.c_str(),
              IsMapped() ? "true" : "false", VirtualPages(), text.c_str());
  std::fflush(stdout);
}

// The last order, which may be done when main has ended.
struct Last {
  std::unique_ptr<Objects> objects;
  std::string order;

  void Do() {
    if (objects == nullptr) return;
    objects->Destroy(order);
    Report(order);
    objects->Forget();
    objects.reset();
  }
  ~Last() { Do(); }
};

// As of a program that is linked with the host: the host is loaded first, so its own statics end last.
struct LoadedHost {
  LoadedHost() {
    if (path != nullptr) dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  }
  const char* path = std::getenv("TEARDOWN_HOST");
} loaded_host;
Last last;

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  if (loaded_host.path == nullptr) return std::fprintf(stderr, "set TEARDOWN_HOST to the host's library\n"), 2;
  plugin = argv[1];
  model = argv[2];
  std::string when = "end";
  std::vector<std::string> orders;
  for (int i = 3; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--lost") {
      lost = true;
    } else if (word == "--when" && i + 1 < argc) {
      when = argv[++i];
    } else {
      orders.push_back(word == "-" ? "" : word);
    }
  }
  try {
    LoadHost(loaded_host.path);
    for (const std::string& order : orders) {
      std::fprintf(stderr, "order %s\n", order.c_str());  // names the one that does not return
      last.order = order;
      last.objects = std::make_unique<Objects>();
      if (&order != &orders.back()) last.Do();
    }
  } catch (const Ort::Exception& exception) {
    return std::fprintf(stderr, "%s\n", exception.what()), 4;
  }
  if (when == "end") last.Do();
  if (when == "atexit") std::atexit([] { last.Do(); });
  return 0;
}
