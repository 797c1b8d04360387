#include "launch_loop.h"

#include <atomic>
#include <barrier>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/elementwise/binary.h"

namespace cudaep::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kDims[] = {16};

// A stream and the operands of a sum of 16 floats.
class Launcher {
 public:
  Status Create() {
    CUDAEP_RETURN_IF_ERROR(device::StreamCreate(stream_.Receive()));
    CUDAEP_RETURN_IF_ERROR(device::Malloc(memory_.Receive(), 4096));
    CUDAEP_ASSIGN_OR_RETURN(broadcast_, kernels::MakeBroadcast<2>(kDims, {kDims, kDims}));
    args_ = {.a = memory_.get(),
             .b = memory_.get(),
             .y = static_cast<char*>(memory_.get()) + 1024,
             .broadcast = &broadcast_};
    return LaunchAndWait(1);
  }

  Status LaunchAndWait(int launches) {
    for (int i = 0; i < launches; ++i) {
      CUDAEP_RETURN_IF_ERROR(add_(args_, stream_.get()));
    }
    return device::StreamSynchronize(stream_.get());
  }

 private:
  device::UniqueStream stream_;
  device::UniqueDeviceMemory memory_;
  kernels::Broadcast<2> broadcast_;
  kernels::BinaryArgs args_{};
  const kernels::BinaryKernel add_ = kernels::FindBinaryKernel("Add", DataType::kFloat);
};

double SecondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

Result<double> LaunchUs(int launches) {
  Launcher launcher;
  CUDAEP_RETURN_IF_ERROR(launcher.Create());
  const auto begin = Clock::now();
  CUDAEP_RETURN_IF_ERROR(launcher.LaunchAndWait(launches));
  return 1e6 * SecondsSince(begin) / launches;
}

Result<double> BareRunsPerSecond(int threads, int launches, double seconds) {
  const auto count = static_cast<size_t>(threads);
  std::vector<std::unique_ptr<Launcher>> launchers;
  for (size_t i = 0; i < count; ++i) {
    CUDAEP_RETURN_IF_ERROR(launchers.emplace_back(std::make_unique<Launcher>())->Create());
  }
  std::atomic<bool> stop{false};
  std::atomic<int64_t> runs{0};
  std::vector<Status> failures(count);
  std::barrier begin(threads + 1), end(threads + 1);
  std::vector<std::thread> workers;
  for (size_t i = 0; i < count; ++i) {
    workers.emplace_back([&, i] {
      int64_t done = 0;
      begin.arrive_and_wait();
      for (; failures[i].ok() && !stop.load(std::memory_order_relaxed); ++done) {
        failures[i] = launchers[i]->LaunchAndWait(launches);
      }
      runs += done;
      end.arrive_and_wait();
    });
  }
  begin.arrive_and_wait();
  const auto start = Clock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  stop = true;
  end.arrive_and_wait();
  const double elapsed = SecondsSince(start);
  for (std::thread& worker : workers) worker.join();
  for (Status& failure : failures) {
    CUDAEP_RETURN_IF_ERROR(std::move(failure));
  }
  return static_cast<double>(runs) / elapsed;
}

}  // namespace cudaep::bench

// For host_cost.py; negative on failure.
extern "C" __attribute__((visibility("default"))) double LaunchLoopUs(int launches) {
  const auto us = cudaep::bench::LaunchUs(launches);
  return us.ok() ? us.value() : -1;
}
