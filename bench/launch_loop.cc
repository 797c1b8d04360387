#include "launch_loop.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/elementwise/binary.h"
#include "lib/blas.h"

namespace cudaep::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kDims[] = {16};

constexpr int64_t kRows = 8, kSize = 64;
constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // as the provider allows

// A stream and the operands of a sum of 16 floats and of a product.
class Launcher {
 public:
  Status Create(bool with_products) {
    CUDAEP_RETURN_IF_ERROR(device::StreamCreate(stream_.Receive()));
    CUDAEP_RETURN_IF_ERROR(device::Malloc(memory_.Receive(), size_t{64} << 10));
    CUDAEP_RETURN_IF_ERROR(device::MemsetAsync(memory_.get(), 0, size_t{64} << 10, stream_.get()));
    CUDAEP_ASSIGN_OR_RETURN(broadcast_, kernels::MakeBroadcast<2>(kDims, {kDims, kDims}));
    args_ = {.a = memory_.get(),
             .b = memory_.get(),
             .y = static_cast<char*>(memory_.get()) + 1024,
             .broadcast = &broadcast_};
    if (with_products) CUDAEP_RETURN_IF_ERROR(CreateProduct());
    return LaunchAndWait({.sums = 1, .products = with_products ? 1 : 0});
  }

  Status LaunchAndWait(const BareRun& run) {
    for (int i = 0; i < std::max(run.sums, run.products); ++i) {
      if (i < run.products) CUDAEP_RETURN_IF_ERROR(blas::Enqueue(*handle_, *plan_, kRows, pointers_, stream_.get()));
      if (i < run.sums) CUDAEP_RETURN_IF_ERROR(add_(args_, stream_.get()));
    }
    return device::StreamSynchronize(stream_.get());
  }

 private:
  Status CreateProduct() {
    CUDAEP_ASSIGN_OR_RETURN(handle_, blas::CreateHandle());
    const blas::GemmProblem problem{
        .m = kRows, .n = kSize, .k = kSize, .lda = kSize, .ldb = kSize, .ldc = kSize, .epilogue = {.bias = true}};
    CUDAEP_ASSIGN_OR_RETURN(plan_, blas::MakePlan(*handle_, problem, kWorkspaceBytes));
    CUDAEP_RETURN_IF_ERROR(device::Malloc(workspace_.Receive(), std::max<size_t>(plan_->workspace_bytes(), 256)));
    char* const data = static_cast<char*>(memory_.get());
    pointers_ = {.a = data + (8 << 10),
                 .b = data + (16 << 10),
                 .c = data + (48 << 10),
                 .bias = data + (12 << 10),
                 .workspace = workspace_.get()};
    return Status::Ok();
  }

  device::UniqueStream stream_;
  device::UniqueDeviceMemory memory_;
  kernels::Broadcast<2> broadcast_;
  kernels::BinaryArgs args_{};
  device::UniqueDeviceMemory workspace_;
  std::unique_ptr<blas::Handle> handle_;
  std::unique_ptr<const blas::GemmPlan> plan_;
  blas::GemmPointers pointers_;
  const kernels::BinaryKernel add_ = kernels::FindBinaryKernel("Add", DataType::kFloat);
};

double SecondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

Result<double> LaunchUs(int launches) {
  Launcher launcher;
  CUDAEP_RETURN_IF_ERROR(launcher.Create(false));
  const auto begin = Clock::now();
  CUDAEP_RETURN_IF_ERROR(launcher.LaunchAndWait({.sums = launches}));
  return 1e6 * SecondsSince(begin) / launches;
}

Result<double> BareRunsPerSecond(int threads, const BareRun& run, double seconds) {
  const auto count = static_cast<size_t>(threads);
  std::vector<std::unique_ptr<Launcher>> launchers;
  for (size_t i = 0; i < count; ++i) {
    CUDAEP_RETURN_IF_ERROR(launchers.emplace_back(std::make_unique<Launcher>())->Create(run.products > 0));
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
        failures[i] = launchers[i]->LaunchAndWait(run);
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

// For bench/worker.py; negative on failure.
extern "C" __attribute__((visibility("default"))) double LaunchLoopUs(int launches) {
  const auto us = cudaep::bench::LaunchUs(launches);
  return us.ok() ? us.value() : -1;
}
