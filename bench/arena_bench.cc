// What a request costs and how much memory it takes, arena beside the driver's own stream-ordered allocation:
//   arena_bench [--json FILE] [--trace FILE] [--small] [--no-driver]
//
// A trace (memory_trace.h) is replayed several times on device 0; the first time warms up. No work is queued, so the
// figures are the allocators' own. A call's time has the clock's own cost taken off.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <thread>

#include "core/strings.h"
#include "device/device_info.h"
#include "memory/arena/arena.h"
#include "memory_trace.h"

namespace cudaep::bench {
namespace {

using Clock = std::chrono::steady_clock;

// One way to get memory.
struct Subject {
  std::string name;
  std::function<Result<void*>(size_t, device::Stream)> allocate;
  std::function<Result<void*>(size_t)> allocate_untagged;
  std::function<Status(void*, device::Stream)> free;
  std::function<void(device::Stream)> idle;  // the stream was waited for
  std::function<int64_t()> searches;         // requests so far that no free memory served at once
};

struct CallTimes {
  size_t calls = 0;
  double mean_ns = 0, p99_ns = 0;
};

double Nanoseconds(Clock::duration time) { return std::chrono::duration<double, std::nano>(time).count(); }

// What two readings of the clock are apart, at the least.
double ClockCostNs() {
  double least = 1e9;
  for (int i = 0; i < 1000; ++i) {
    const auto begin = Clock::now();
    least = std::min(least, Nanoseconds(Clock::now() - begin));
  }
  return least;
}

CallTimes Summarize(std::vector<double>* times, double clock_ns) {
  CallTimes summary;
  if (times->empty()) return summary;
  summary.calls = times->size();
  double sum = 0;
  for (const double time : *times) sum += time - clock_ns;
  summary.mean_ns = sum / static_cast<double>(times->size());
  const auto p99 = times->begin() + static_cast<ptrdiff_t>(times->size() * 99 / 100);
  std::nth_element(times->begin(), p99, times->end());
  summary.p99_ns = *p99 - clock_ns;
  return summary;
}

struct Replay {
  CallTimes hit, search, free;
};

Result<Replay> ReplayTrace(const Trace& trace, const Subject& subject, const std::vector<device::UniqueStream>& streams,
                           int repeats) {
  struct Live {
    void* pointer = nullptr;
    uint32_t lane = 0;
  };
  std::vector<Live> live(trace.ids);
  std::vector<double> hit, search, free;
  std::vector<double>* group = &hit;
  for (int repeat = 0; repeat <= repeats; ++repeat) {
    for (const TraceStep& step : trace.steps) {
      if (step.kind == TraceStep::Kind::kIdle) {
        CUDAEP_RETURN_IF_ERROR(device::StreamSynchronize(streams[step.lane].get()));
        subject.idle(streams[step.lane].get());
        continue;
      }
      Live& memory = live[step.id];
      if (step.kind == TraceStep::Kind::kAllocate) memory.lane = step.lane;
      const bool tagged = memory.lane != TraceStep::kNoLane;
      const device::Stream stream = streams[tagged ? memory.lane : 0].get();
      const int64_t searches = subject.searches();
      const auto begin = Clock::now();
      if (step.kind == TraceStep::Kind::kFree) {
        CUDAEP_RETURN_IF_ERROR(subject.free(memory.pointer, stream));
      } else if (tagged) {
        CUDAEP_ASSIGN_OR_RETURN(memory.pointer, subject.allocate(step.bytes, stream));
      } else {
        CUDAEP_ASSIGN_OR_RETURN(memory.pointer, subject.allocate_untagged(step.bytes));
      }
      const double time = Nanoseconds(Clock::now() - begin);
      if (step.kind != TraceStep::Kind::kFree) group = subject.searches() == searches ? &hit : &search;
      if (repeat != 0) (step.kind == TraceStep::Kind::kFree ? free : *group).push_back(time);
    }
  }
  const double clock_ns = ClockCostNs();
  return Replay{Summarize(&hit, clock_ns), Summarize(&search, clock_ns), Summarize(&free, clock_ns)};
}

// Nanoseconds of a thread for one request and its free, when `threads` of them use the arena at once.
Result<double> ContendedPairNs(memory::Arena& arena, int threads, int pairs) {
  std::vector<device::UniqueStream> streams(static_cast<size_t>(threads));
  for (device::UniqueStream& stream : streams) CUDAEP_RETURN_IF_ERROR(device::StreamCreate(stream.Receive()));
  std::atomic<bool> go{false}, failed{false};
  std::atomic<int> ready{0};
  std::vector<std::thread> workers;
  for (const device::UniqueStream& stream : streams) {
    workers.emplace_back([&, own = stream.get()] {
      constexpr size_t kSizes[] = {1000, 70000, 4096, 300000, 256, 20000};
      const auto pair = [&](int i) {
        Result<void*> pointer = arena.AllocateOnStream(kSizes[static_cast<size_t>(i) % std::size(kSizes)], own);
        if (!pointer.ok()) failed = true;
        arena.Free(*pointer);
      };
      for (int i = 0; i < 100; ++i) pair(i);
      ++ready;
      while (!go) std::this_thread::yield();
      for (int i = 0; i < pairs; ++i) pair(i);
    });
  }
  while (ready < threads) std::this_thread::yield();
  const auto begin = Clock::now();
  go = true;
  for (std::thread& worker : workers) worker.join();
  const double elapsed = Nanoseconds(Clock::now() - begin);
  for (const device::UniqueStream& stream : streams) {
    CUDAEP_RETURN_IF_ERROR(device::StreamSynchronize(stream.get()));
    arena.ReleaseStream(stream.get());
  }
  if (failed) return OutOfMemory("a request failed under contention");
  return elapsed / pairs;
}

// Prints a line, and returns it as JSON.
std::string Line(const char* name, const CallTimes& times) {
  std::printf("  %-34s %8zu calls  %8.0f ns (p99 %8.0f)\n", name, times.calls, times.mean_ns, times.p99_ns);
  return StrCat("\"", name, "\": {\"calls\": ", times.calls, ", \"mean_ns\": ", times.mean_ns,
                ", \"p99_ns\": ", times.p99_ns, "}");
}

std::string Lines(const std::string& name, const Replay& replay) {
  std::printf("%s\n", name.c_str());
  std::string json = StrCat("{\"name\": \"", name, "\", ", Line("allocation", replay.hit));
  if (replay.search.calls != 0) json += ", " + Line("allocation that waits or grows", replay.search);
  return json + ", " + Line("free", replay.free);
}

// Replays the trace in an arena and, unless told otherwise, in the driver's own allocation; returns the JSON.
Result<std::string> Compare(const std::string& name, const Trace& trace, int repeats, bool with_driver) {
  std::vector<device::UniqueStream> streams(std::max(trace.lanes, 1u));
  for (device::UniqueStream& stream : streams) CUDAEP_RETURN_IF_ERROR(device::StreamCreate(stream.Receive()));
  memory::Arena arena({memory::MemoryKind::kDevice, 0}, {});
  const Subject in_arena{"arena",
                         [&](size_t bytes, device::Stream stream) { return arena.AllocateOnStream(bytes, stream); },
                         [&](size_t bytes) { return arena.Allocate(bytes); },
                         [&](void* pointer, device::Stream) {
                           arena.Free(pointer);
                           return Status::Ok();
                         },
                         [&](device::Stream stream) { arena.Reached(arena.Mark(stream)); },
                         [&] { return arena.Stats().searches; }};
  const auto malloc_async = [](size_t bytes, device::Stream stream) -> Result<void*> {
    void* pointer = nullptr;
    CUDAEP_RETURN_IF_ERROR(device::MallocAsync(&pointer, bytes, stream));
    return pointer;
  };
  const Subject in_driver{"stream-ordered driver",
                          malloc_async,
                          [&](size_t bytes) { return malloc_async(bytes, streams[0].get()); },
                          [](void* pointer, device::Stream stream) { return device::FreeAsync(pointer, stream); },
                          [](device::Stream) {},
                          [] { return int64_t{0}; }};
  std::printf("%s: %zu steps on %u streams, at most %.1f MiB live\n", name.c_str(), trace.steps.size(), trace.lanes,
              static_cast<double>(trace.peak_live_bytes) / (1 << 20));
  std::string json = StrCat("{\"trace\": \"", name, "\", \"steps\": ", trace.steps.size(),
                            ", \"peak_live_bytes\": ", trace.peak_live_bytes, ", \"allocators\": [");
  CUDAEP_ASSIGN_OR_RETURN(const Replay arena_replay, ReplayTrace(trace, in_arena, streams, repeats));
  const memory::AllocatorStats stats = arena.Stats();
  const double ratio = static_cast<double>(stats.peak_bytes_reserved) / static_cast<double>(trace.peak_live_bytes);
  json += Lines(in_arena.name, arena_replay);
  std::printf("  reserved %.3f of peak live, %lld extensions, %lld stream waits\n", ratio,
              static_cast<long long>(stats.driver_allocations), static_cast<long long>(stats.stream_waits));
  json += StrCat(", \"reserved_over_peak_live\": ", ratio, ", \"extensions\": ", stats.driver_allocations,
                 ", \"stream_waits\": ", stats.stream_waits, "}");
  if (with_driver) {
    CUDAEP_ASSIGN_OR_RETURN(const Replay driver_replay, ReplayTrace(trace, in_driver, streams, repeats));
    json += ", " + Lines(in_driver.name, driver_replay) + "}";
  }
  json += "]}";
  for (const device::UniqueStream& stream : streams) arena.ReleaseStream(stream.get());
  return json;
}

Status Run(const char* json_path, const char* trace_path, bool small, bool with_driver) {
  CUDAEP_ASSIGN_OR_RETURN(const device::DeviceInfo* info, device::GetDeviceInfo(0));
  CUDAEP_RETURN_IF_ERROR(device::SetDevice(0));
  std::vector<std::pair<std::string, Trace>> traces;
  if (trace_path != nullptr) {
    CUDAEP_ASSIGN_OR_RETURN(Trace trace, ReadTrace(trace_path));
    traces.emplace_back(trace_path, std::move(trace));
  } else {
    traces.emplace_back("made-up Runs", ModelRuns(4, small ? 5 : 50, 1, false));
    traces.emplace_back("made-up Runs, all sizes unlike", ModelRuns(8, small ? 5 : 50, 1, true));
  }
  std::printf("%s\n", info->name.c_str());
  std::string json = StrCat("{\"device\": \"", info->name, "\", \"traces\": [");
  for (const auto& [name, trace] : traces) {
    CUDAEP_ASSIGN_OR_RETURN(const std::string compared, Compare(name, trace, small ? 2 : 10, with_driver));
    json += (&trace == &traces.front().second ? "" : ", ") + compared;
  }
  json += "], \"contention\": [";
  memory::Arena arena({memory::MemoryKind::kDevice, 0}, {});
  for (const int threads : {1, 4, 16}) {
    CUDAEP_ASSIGN_OR_RETURN(const double ns, ContendedPairNs(arena, threads, small ? 10000 : 200000));
    std::printf("%2d threads               %7.0f ns a pair\n", threads, ns);
    json += StrCat(threads == 1 ? "" : ", ", "{\"threads\": ", threads, ", \"pair_ns\": ", ns, "}");
  }
  if (json_path != nullptr) {
    std::ofstream file(json_path);
    file << json << "]}\n";
    if (!file.flush()) return InvalidArgument(json_path, " cannot be written");
  }
  return Status::Ok();
}

}  // namespace
}  // namespace cudaep::bench

int main(int argc, char** argv) {
  const char *json = nullptr, *trace = nullptr;
  bool small = false, with_driver = true;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
      json = argv[++i];
    } else if (std::strcmp(argv[i], "--trace") == 0 && i + 1 < argc) {
      trace = argv[++i];
    } else if (std::strcmp(argv[i], "--small") == 0) {
      small = true;
    } else if (std::strcmp(argv[i], "--no-driver") == 0) {
      with_driver = false;
    } else {
      std::fprintf(stderr, "usage: %s [--json FILE] [--trace FILE] [--small] [--no-driver]\n", argv[0]);
      return 2;
    }
  }
  const cudaep::Status status = cudaep::bench::Run(json, trace, small, with_driver);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
