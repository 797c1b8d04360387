// Convolutions by engines that the library compiles at run time, in the background while others serve: those of few
// multiplications, where a launch's way to its first product is what counts, by one which takes part in programmatic
// dependent launch and which heuristics never suggest; and those whose activation no precompiled engine has.
#pragma once

#include <atomic>
#include <string>
#include <vector>

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

// Whether kRuntimeEngine may do the problem: by its types and form alone.
bool TakesRuntimeEngine(const dnn::ConvProblem& problem);

// Has a plan by the first of `choices` (dnn::MakePlan) that does the problem take the place of the slot's first one
// (PlanStore::ReplaceInBackground): not of a deterministic problem, whose bits would change on the way, and not where
// the memory limit leaves so little that a Run could fail for what the library takes meanwhile. What has begun, was
// done or was refused is not begun again.
void CompileInBackground(const dnn::ConvProblem& problem, const StreamContext& stream, const PlanSlotPtr& slot,
                         std::vector<std::string> choices, CompileBudget& budget = CompileBudget::Process());

}  // namespace cudaep::ops
