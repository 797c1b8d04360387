// Convolutions of few pixels, where a launch's way to its first product is what counts: by an engine that the library
// compiles at run time, which takes part in programmatic dependent launch and which heuristics never suggest.
#pragma once

#include <atomic>

#include "lib/dnn.h"
#include "runtime/plan_store.h"
#include "runtime/stream_context.h"

namespace cudaep::ops {

// Compiling takes some 150 ms a problem, so it is begun for so many only. Threads: any.
class CompileBudget {
 public:
  explicit CompileBudget(int most) : most_(most) {}
  static CompileBudget& Process();
  bool Take() { return begun_.load(std::memory_order_relaxed) < most_ && begun_.fetch_add(1) < most_; }

 private:
  const int most_;
  std::atomic<int> begun_{0};
};

// Has the engine's plan take the place of another one (PlanStore::ReplaceInBackground), if it takes the problem: not a
// deterministic one, whose bits would change on the way. What has begun or was refused is not begun again.
void CompileInBackground(const dnn::ConvProblem& problem, const StreamContext& stream, const PlanSlotPtr& slot,
                         CompileBudget& budget = CompileBudget::Process());

}  // namespace cudaep::ops
