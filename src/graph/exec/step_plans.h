// Plans of one step of a region, shared by the recipes for which it is the same call.
//
// A decoder's past is longer in each Run, so each Run has a recipe of its own; most of its steps see the same
// dimensions as before. The latest few plans of each step are at hand, found by the key that ops/planned_operator.h
// would give them, without a new inference of shapes where the key has all of them.
// Threads: all functions may be called from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "ops/operator.h"
#include "ops/plan_key.h"

namespace cudaep::graph {

using SharedPlan = std::shared_ptr<const ops::Plan>;

class StepPlans {
 public:
  static constexpr size_t kMost = 4;

  // Null: there is none with this key.
  SharedPlan Find(const ops::PlanKey& key);
  // In place of the one that was not asked for longest.
  void Add(const ops::PlanKey& key, SharedPlan plan);

 private:
  struct Entry {
    std::vector<int64_t> key;
    SharedPlan plan;
    uint64_t last_use = 0;
  };

  std::mutex mutex_;
  std::array<Entry, kMost> entries_;  // guarded by mutex_
  uint64_t clock_ = 0;                // guarded by mutex_
};

}  // namespace cudaep::graph
