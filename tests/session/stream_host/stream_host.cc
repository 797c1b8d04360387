// Runs one session on several streams of the application's through stock ONNX Runtime's C interface.
//
//   stream_host LIBONNXRUNTIME PROBE MODEL
//
// PROBE is the test build of the plug-in (tests/session/probe); MODEL takes and gives [n, columns] of floats. Prints
// one JSON line a check, as the Python suites do.
#include <dlfcn.h>

#include <barrier>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "host_api/host_api.h"

namespace {

using namespace cudaep::host_api;  // NOLINT(google-build-using-namespace)

constexpr int64_t kRows = 5, kColumns = 64, kCount = kRows * kColumns;
constexpr int kStreams = 4, kValues = 6, kLoops = 30;

// The probe's functions; see probe.cc.
struct Probe {
  explicit Probe(const char* path) : library(dlopen(path, RTLD_NOW)) {
    if (library == nullptr) Fail(dlerror());
    const auto load = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (function == nullptr) Fail(std::string(name) + " is missing");
    };
    load(counters, "ProbeCounters");
    load(stream_create, "ProbeStreamCreate");
    load(stream_destroy, "ProbeStreamDestroy");
    load(synchronize, "ProbeStreamSynchronize");
    load(malloc, "ProbeMalloc");
    load(free, "ProbeFree");
    load(produce, "ProbeProduce");
    load(read, "ProbeRead");
    load(bytes_in_use, "ProbeBytesInUse");
    load(capture_begin, "ProbeCaptureBegin");
    load(capture_end, "ProbeCaptureEnd");
    load(graph_launch, "ProbeGraphLaunch");
    load(graph_destroy, "ProbeGraphDestroy");
  }
  uint64_t Waits() const {
    uint64_t values[18];
    counters(values);
    return values[6] + values[7] + values[8];
  }
  void* library;
  void (*counters)(uint64_t*);
  void* (*stream_create)(int, int);
  const char* (*stream_destroy)(void*);
  const char* (*synchronize)(void*);
  void* (*malloc)(size_t);
  const char* (*free)(void*);
  const char* (*produce)(void*, float*, float, int64_t);
  const char* (*read)(void*, void*, const void*, size_t);
  size_t (*bytes_in_use)(int);
  const char* (*capture_begin)(void*);
  const char* (*capture_end)(void*, void**);
  const char* (*graph_launch)(void*, void*);
  const char* (*graph_destroy)(void*);
};
std::unique_ptr<Probe> probe;

void Check(const char* error) {
  if (error != nullptr) Fail(error);
}

Ort::Env env{nullptr};
const OrtEpDevice* ep_device = nullptr;
const char* model = nullptr;

Ort::Session Open() { return Ort::Session(env, model, AllNodesOn(env, ep_device)); }

Ort::SyncStream OwnStream() { return MakeStream(ep_device); }
Ort::SyncStream Wrap(void* stream) {
  return MakeStream(ep_device, {{"user_compute_stream", std::to_string(reinterpret_cast<uintptr_t>(stream))}});
}

// Buffers in device memory and Runs on them on a given stream; nothing here waits.
class Lane {
 public:
  Lane(Ort::Session& session, Ort::SyncStream& stream)
      : session_(session),
        handle_(stream.GetHandle()),
        x_(static_cast<float*>(probe->malloc(kCount * sizeof(float)))),
        y_(static_cast<float*>(probe->malloc(kCount * sizeof(float)))),
        binding_(session) {
    const Ort::MemoryInfo memory = DeviceMemory();
    const int64_t dims[] = {kRows, kColumns};
    Ort::AllocatorWithDefaultOptions allocator;
    input_ = Ort::Value::CreateTensor<float>(memory, x_, kCount, dims, 2);
    output_ = Ort::Value::CreateTensor<float>(memory, y_, kCount, dims, 2);
    binding_.BindInput(session.GetInputNameAllocated(0, allocator).get(), input_);
    binding_.BindOutput(session.GetOutputNameAllocated(0, allocator).get(), output_);
    options_.AddConfigEntry("disable_synchronize_execution_providers", "1");
    options_.SetSyncStream(stream);
  }
  ~Lane() {
    probe->synchronize(handle_);
    probe->free(x_);
    probe->free(y_);
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Produce, Run and consume on the stream; the only wait is the read's.
  std::vector<float> Run(float value) {
    return Run(value, [&] { Enqueue(); });
  }
  std::vector<float> Run(float value, const auto& work) {
    std::vector<float> result(kCount);
    Check(probe->produce(handle_, x_, value, kCount));
    work();
    Check(probe->read(handle_, result.data(), y_, kCount * sizeof(float)));
    return result;
  }
  // The Run alone.
  void Enqueue() { session_.Run(options_, binding_); }

 private:
  Ort::Session& session_;
  void* handle_;
  float *x_, *y_;
  Ort::IoBinding binding_;
  Ort::Value input_{nullptr}, output_{nullptr};
  Ort::RunOptions options_;
};

std::vector<std::vector<float>> Serial(Ort::Session& session) {
  Ort::SyncStream stream = OwnStream();
  Lane lane(session, stream);
  std::vector<std::vector<float>> results;
  for (int i = 0; i < kValues; ++i) results.push_back(lane.Run(static_cast<float>(i) * 0.37f));
  return results;
}

// Threads over one session, each on its stream, against one thread's numbers; exactly one wait a Run, the read's.
void RunTogether(Ort::Session& session, std::vector<Ort::SyncStream>& streams) {
  const std::vector<std::vector<float>> expected = Serial(session);
  std::vector<std::unique_ptr<Lane>> lanes;
  for (Ort::SyncStream& stream : streams) lanes.push_back(std::make_unique<Lane>(session, stream));
  // Counted while all threads live and have made a Run: newer hosts make streams for each thread, which they release
  // when it has ended.
  uint64_t before = 0, after = 0;
  std::barrier begin(static_cast<std::ptrdiff_t>(lanes.size()), [&]() noexcept { before = probe->Waits(); });
  std::barrier end(static_cast<std::ptrdiff_t>(lanes.size()), [&]() noexcept { after = probe->Waits(); });
  std::vector<std::string> errors(lanes.size());
  std::vector<std::thread> threads;
  for (size_t t = 0; t < lanes.size(); ++t) {
    threads.emplace_back([&, t] {
      const auto guarded = [&](auto&& work) {
        try {
          work();
        } catch (const std::exception& error) {
          errors[t] = error.what();
        }
      };
      guarded([&] { lanes[t]->Run(1.0f); });
      begin.arrive_and_wait();
      guarded([&] {
        for (size_t i = 0; i < kLoops; ++i) {
          const size_t choice = (i * 5 + t) % kValues;
          const std::vector<float> found = lanes[t]->Run(static_cast<float>(choice) * 0.37f);
          if (std::memcmp(found.data(), expected[choice].data(), kCount * sizeof(float)) != 0) Fail("other numbers");
        }
      });
      end.arrive_and_wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) {
    if (!error.empty()) Fail(error);
  }
  const uint64_t waits = after - before, reads = lanes.size() * kLoops;
  if (waits != reads) Fail(std::to_string(waits) + " synchronisations for " + std::to_string(reads) + " reads");
}

void CheckCallerStreamsShareOneSession() {
  std::vector<void*> handles;
  for (int i = 0; i < kStreams; ++i) handles.push_back(probe->stream_create(0, i % 2));
  {
    Ort::Session session = Open();
    std::vector<Ort::SyncStream> streams;
    for (void* handle : handles) {
      streams.push_back(Wrap(handle));
      if (streams.back().GetHandle() != handle) Fail("another stream was wrapped");
    }
    RunTogether(session, streams);
  }
  for (void* handle : handles) Check(probe->stream_destroy(handle));  // never owned: alive until here
}

void CheckStreamsOfOursShareOneSession() {
  Ort::Session session = Open();
  std::vector<Ort::SyncStream> streams;
  for (int i = 0; i < kStreams; ++i) streams.push_back(OwnStream());
  RunTogether(session, streams);
}

void CheckStreamsComeAndGo() {
  Ort::Session session = Open();
  const std::vector<std::vector<float>> expected = Serial(session);
  size_t after_five = 0;
  for (int cycle = 0; cycle < 60; ++cycle) {
    void* handle = cycle % 2 == 0 ? probe->stream_create(0, 0) : nullptr;
    {
      Ort::SyncStream stream = handle != nullptr ? Wrap(handle) : OwnStream();
      Lane lane(session, stream);
      const int choice = cycle % kValues;
      if (lane.Run(static_cast<float>(choice) * 0.37f) != expected[static_cast<size_t>(choice)]) Fail("other numbers");
    }
    if (handle != nullptr) Check(probe->stream_destroy(handle));
    if (cycle == 5) after_five = probe->bytes_in_use(0);
  }
  const size_t now = probe->bytes_in_use(0);
  if (now > after_five) Fail(std::to_string(now - after_five) + " bytes more after 60 streams than after 6");
}

void CheckOneStreamServesTwoSessions() {
  Ort::SyncStream stream = OwnStream();
  for (int i = 0; i < 2; ++i) {
    Ort::Session first = Open(), second = Open();
    Lane a(first, stream), b(second, stream);
    for (int k = 0; k < 5; ++k) {
      if (a.Run(static_cast<float>(k)) != b.Run(static_cast<float>(k))) Fail("two sessions disagree");
    }
  }
}

void CheckASessionMayOutliveItsStreamAndTheReverse() {
  Ort::SyncStream stream = OwnStream();
  Ort::Session session = Open();
  Lane(session, stream).Run(1.0f);
  stream = Ort::SyncStream(nullptr);
  stream = OwnStream();
  Lane(session, stream).Run(1.0f);
  session = Ort::Session(nullptr);
}

// What a Run says inside the caller's capture, empty when it says nothing; `*graph` is what was captured then. The
// capture itself must stay whole either way.
std::string RunInCapture(Lane& lane, void* stream, void** graph) {
  std::string text;
  Check(probe->capture_begin(stream));
  try {
    lane.Enqueue();
  } catch (const std::exception& error) {
    text = error.what();
  }
  Check(probe->capture_end(stream, graph));
  return text;
}

// The application captures a Run into a graph of its own (torch.cuda.graph does) and replays it with other inputs.
void CheckTheCallerCapturesARun() {
  void* const handle = probe->stream_create(0, 0);
  {
    Ort::Session session = Open();
    Ort::SyncStream stream = Wrap(handle);
    Lane lane(session, stream);
    std::vector<std::vector<float>> expected;
    for (int i = 0; i < kValues; ++i) expected.push_back(lane.Run(static_cast<float>(i) * 0.37f));
    void* graph = nullptr;
    const std::string text = RunInCapture(lane, handle, &graph);
    if (!text.empty()) Fail(text);
    for (int i = 0; i < kValues; ++i) {
      const auto found = lane.Run(static_cast<float>(i) * 0.37f, [&] { Check(probe->graph_launch(graph, handle)); });
      if (found != expected[static_cast<size_t>(i)]) Fail("the replay gives other numbers");
    }
    if (lane.Run(0.37f) != expected[1]) Fail("a Run after the replays gives other numbers");
    Check(probe->graph_destroy(graph));
  }
  Check(probe->stream_destroy(handle));
}

// What a capture cannot hold is refused by name, and neither the capture nor the session suffers.
void RefusesInCapture(const char* named, const auto& prepare) {
  void* const handle = probe->stream_create(0, 0);
  {
    Ort::Session session = Open(), other = Open();
    Ort::SyncStream stream = Wrap(handle);
    Lane lane(session, stream);
    prepare(lane);
    void* graph = nullptr;
    const std::string text = RunInCapture(lane, handle, &graph);
    if (text.find(named) == std::string::npos) Fail("the Run in a capture says: '" + text + "'");
    Check(probe->graph_destroy(graph));
    if (lane.Run(0.37f) != Lane(other, stream).Run(0.37f)) Fail("a Run after the refusal gives other numbers");
    const std::string again = RunInCapture(lane, handle, &graph);
    if (!again.empty()) Fail("a Run that can be captured says: " + again);
    Check(probe->graph_destroy(graph));
  }
  Check(probe->stream_destroy(handle));
}

void CheckAColdRunInACaptureIsRefused() {
  RefusesInCapture("run them once before the capture", [](Lane&) {});
}

void ExpectError(const char* key, const std::string& value, const std::string& text) {
  try {
    MakeStream(ep_device, {{key, value}});
  } catch (const std::exception& error) {
    if (std::string(error.what()).find(text) == std::string::npos) Fail(error.what());
    return;
  }
  Fail(std::string(key) + "=" + value + " was accepted");
}

void CheckBadStreamOptionsAreRefused() {
  ExpectError("user_compute_stream", "0xzz", "user_compute_stream='0xzz'");
  ExpectError("user_compute_stream", "64", "user_compute_stream");
  ExpectError("no_such_key", "1", "no_such_key");
  void* other = probe->stream_create(1, 0);
  ExpectError("user_compute_stream", std::to_string(reinterpret_cast<uintptr_t>(other)), "CUDA ordinal 1");
}

void Report(const char* name, void (*check)()) {
  std::string failure;
  try {
    check();
  } catch (const std::exception& error) {
    failure = error.what();
    if (failure.empty()) failure = "an error without text";
  }
  std::printf("{\"check\": \"%s\", \"failure\": %s, \"skipped\": \"\"}\n", name, Quoted(failure).c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  setenv("CUDAEP_SIM_DEVICES", "2", 1);
  model = argv[3];
  try {
    LoadHost(argv[1]);
    env = MakeEnv("stream_host", ORT_LOGGING_LEVEL_ERROR);
    ep_device = RegisterPlugin(env, argv[2]);
    probe = std::make_unique<Probe>(argv[2]);
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "%s\n", error.what()), 1;
  }
  Report("caller_streams_share_one_session", CheckCallerStreamsShareOneSession);
  Report("streams_of_ours_share_one_session", CheckStreamsOfOursShareOneSession);
  Report("streams_come_and_go", CheckStreamsComeAndGo);
  Report("one_stream_serves_two_sessions", CheckOneStreamServesTwoSessions);
  Report("a_session_may_outlive_its_stream_and_the_reverse", CheckASessionMayOutliveItsStreamAndTheReverse);
  Report("the_caller_captures_a_run", CheckTheCallerCapturesARun);
  Report("a_cold_run_in_a_capture_is_refused", CheckAColdRunInACaptureIsRefused);
  Report("bad_stream_options_are_refused", CheckBadStreamOptionsAreRefused);
  env = Ort::Env{nullptr};
  return 0;
}
