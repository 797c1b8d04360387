#include "graph/exec/step_plans.h"

#include <algorithm>
#include <utility>

namespace cudaep::graph {

SharedPlan StepPlans::Find(const ops::PlanKey& key) {
  std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.plan == nullptr || !std::ranges::equal(entry.key, key.words())) continue;
    entry.last_use = ++clock_;
    return entry.plan;
  }
  return nullptr;
}

void StepPlans::Add(const ops::PlanKey& key, SharedPlan plan) {
  std::lock_guard lock(mutex_);
  Entry& oldest = *std::ranges::min_element(entries_, {}, &Entry::last_use);
  oldest.key.assign(key.words().begin(), key.words().end());
  oldest.plan = std::move(plan);
  oldest.last_use = ++clock_;
}

}  // namespace cudaep::graph
