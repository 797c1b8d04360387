// The fastest of a library's ways to solve a problem, measured, and measured plans in the process's store.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "runtime/plan_store.h"
#include "runtime/plan_timing.h"

namespace cudaep::ops {

// Of the plans that make(choice) gives for `choices`; those that it refuses are left out. prepare(bytes) sets up
// tensors and a workspace of so many bytes, run(plan) queues a call. `problem` names it in errors: kNotSupported where
// no plan runs, what prepare and TimeAlternatives say otherwise.
template <class PlanOf, class Make, class Prepare, class Run>
Result<std::unique_ptr<const PlanOf>> FastestPlan(StreamContext& stream, const std::vector<std::string>& choices,
                                                  const std::string& problem, int64_t most_ms, Make&& make,
                                                  Prepare&& prepare, Run&& run) {
  std::vector<std::unique_ptr<const PlanOf>> plans;
  size_t workspace_bytes = 0;
  for (const std::string& choice : choices) {
    Result<std::unique_ptr<const PlanOf>> plan = make(choice);
    if (!plan.ok()) continue;
    workspace_bytes = std::max(workspace_bytes, (*plan)->workspace_bytes());
    plans.push_back(std::move(plan).value());
  }
  if (plans.size() < 2) return make(std::string());
  CUDAEP_RETURN_IF_ERROR(prepare(workspace_bytes));
  CUDAEP_ASSIGN_OR_RETURN(const std::vector<float> times,
                          TimeAlternatives(
                              stream, plans.size(), [&](size_t i) { return run(*plans[i]); }, 5, most_ms));
  const auto fastest = std::min_element(times.begin(), times.end());
  if (std::isinf(*fastest)) {
    return NotSupported(problem, ": none of the library's ", plans.size(), " candidates runs");
  }
  return std::move(plans[static_cast<size_t>(fastest - times.begin())]);
}

// The plan that `make` measured, or that was measured before, whatever the limit was then. Null where it does not fit
// `limit`, there was no room to measure in (kOutOfMemory), or `make` may not (kNotReady): the library's first serves
// then, under another key, since a plan that was not measured must not pass for one that was.
Result<PlanSlotPtr> FindMeasuredPlan(const PlanStore::Request& request, size_t limit, const PlanStore::Make& make);

}  // namespace cudaep::ops
