// Runs one session on several streams of the application's through stock ONNX Runtime's C interface.
//
//   stream_host LIBONNXRUNTIME PROBE MODELS
//
// PROBE is the test build of the plug-in (tests/session/probe); MODELS is the folder that test_stream_host.py makes.
// Prints one JSON line a check, as the Python suites do.
#include <barrier>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "application.h"
#include "capture_checks.h"

namespace cudaep::stream_host {
namespace {

constexpr int kStreams = 4, kValues = 6, kLoops = 30;

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
          if (std::memcmp(found.data(), expected[choice].data(), found.size() * sizeof(float)) != 0)
            Fail("other numbers");
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

// Inputs and outputs wherever they are: what the host copies is in order with the Run.
void CheckHostMemoryIsCopiedInOrder() {
  Ort::Session session = Open();
  const std::vector<std::vector<float>> expected = Serial(session);
  for (const Place in : {Place::kDevice, Place::kPinned, Place::kHost}) {
    for (const Place out : {Place::kDevice, Place::kPinned, Place::kHost}) {
      for (const bool bound : {false, true}) {
        Ort::SyncStream stream = OwnStream();
        Lane lane(session, stream, {.in_place = in, .out_place = out, .bound = bound});
        for (size_t i = 0; i < kValues; ++i) {
          if (lane.Run(static_cast<float>(i) * 0.37f) != expected[i]) Fail("other numbers");
        }
      }
    }
  }
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

int Main(int argc, char** argv) {
  if (argc != 4) return 2;
  setenv("CUDAEP_SIM_DEVICES", "2", 1);
  models = argv[3];
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
  Report("host_memory_is_copied_in_order", CheckHostMemoryIsCopiedInOrder);
  Report("the_caller_captures_a_run", CheckTheCallerCapturesARun);
  Report("a_cold_run_in_a_capture_is_refused", CheckAColdRunInACaptureIsRefused);
  Report("memory_that_must_grow_in_a_capture_is_refused", CheckMemoryThatMustGrowInACaptureIsRefused);
  Report("copies_of_host_memory_in_a_capture_are_refused", CheckCopiesOfHostMemoryInACaptureAreRefused);
  Report("a_node_on_the_cpu_in_a_capture_is_refused", CheckANodeOnTheCpuInACaptureIsRefused);
  Report("a_loop_runs_on_a_callers_stream", CheckALoopRunsOnACallersStream);
  Report("a_loop_in_a_capture_works_or_is_refused", CheckALoopInACaptureWorksOrIsRefused);
  Report("a_given_stream_is_no_part_of_the_hosts_graphs", CheckAGivenStreamIsNoPartOfTheHostsGraphs);
  Report("bad_stream_options_are_refused", CheckBadStreamOptionsAreRefused);
  env = Ort::Env{nullptr};
  return 0;
}

}  // namespace
}  // namespace cudaep::stream_host

int main(int argc, char** argv) { return cudaep::stream_host::Main(argc, argv); }
