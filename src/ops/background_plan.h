// Library plans that are compiled at run time, on the plan store's own thread.
#pragma once

#include <atomic>
#include <functional>

#include "lib/dnn.h"
#include "runtime/plan_store.h"
#include "runtime/stream_context.h"

namespace cudaep::ops {

// Compiling takes some 150 ms a convolution and 350 ms an attention, so it is begun for so many problems only. Threads:
// any.
class CompileBudget {
 public:
  explicit CompileBudget(int most) : most_(most) {}
  static CompileBudget& Process();
  bool IsOpen() const { return begun_.load(std::memory_order_relaxed) < most_; }
  bool Take() { return IsOpen() && begun_.fetch_add(1) < most_; }

 private:
  const int most_;
  std::atomic<int> begun_{0};
};

// Whether one more plan may be compiled: not where the memory limit leaves so little that a Run could fail for what the
// library takes meanwhile.
bool MayCompile(const StreamContext& stream, const CompileBudget& budget = CompileBudget::Process());

// For PlanStore::ReplaceInBackground: `make` with a handle of its own, on a thread that may do what a capture elsewhere
// forbids. A plan that waits for its turn does not keep the memory of its session, and fails when that has ended. The
// budget, which outlives it, is taken from right before `make`: what does not get that far costs nothing.
PlanStore::Make OnOwnHandle(const StreamContext& stream, std::function<Result<LibraryPlanPtr>(dnn::Handle&)> make,
                            CompileBudget& budget = CompileBudget::Process());

}  // namespace cudaep::ops
