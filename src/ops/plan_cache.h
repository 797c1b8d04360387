// The plans of one operator, found by key without a lock.
//
// A table of sets of kWays cells: a hit compares a hash, announces the plan in the stream's pins, looks again and
// compares the key. It takes no lock, allocates nothing and writes nothing that threads share. The table starts with
// one set and grows once, so an operator that meets one shape stays small and one that meets hundreds stays bounded;
// in a full set the plan that was not used for longest goes. A plan that left the table lives until no stream has it
// announced.
// Concurrent misses of one key build one plan, and nobody waits for the plan of another key.
// Threads: all methods may run concurrently.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "ops/operator.h"
#include "ops/plan_key.h"
#include "runtime/plan_pins.h"

namespace cudaep::ops {

// A plan in the cache.
struct PlanEntry {
  uint64_t hash = 0;
  std::vector<int64_t> key;
  std::unique_ptr<const Plan> plan;
  mutable std::atomic<uint32_t> last_use{0};
  // Calls for which another plan of the same inputs takes its place (PlannedOperator).
  mutable std::atomic<uint32_t> detours{0};
};

class PlanCache {
 public:
  static constexpr size_t kWays = 8;
  static constexpr size_t kMaxPlans = 64 * kWays;

  PlanCache();
  ~PlanCache();
  PlanCache(const PlanCache&) = delete;
  PlanCache& operator=(const PlanCache&) = delete;

  // The plan with this key, announced in `pin`; null when there is none.
  const PlanEntry* Find(PlanPin& pin, const PlanKey& key, uint64_t hash) const;

  // The same, building what is missing with `build() -> Result<unique_ptr<const Plan>>`, which runs without any lock.
  // A failure is not kept.
  template <class Build>
  Result<const PlanEntry*> FindOrBuild(PlanPin& pin, const PlanKey& key, uint64_t hash, Build&& build) {
    if (const PlanEntry* entry = BeginBuild(pin, key, hash)) return entry;
    const BuildScope scope(*this, key);  // also where building ends with an exception
    CUDAEP_ASSIGN_OR_RETURN(std::unique_ptr<const Plan> plan, build());
    Entries gone;
    std::lock_guard lock(mutex_);
    return Insert(pin, key, hash, std::move(plan), gone);
  }

  // Puts a plan in place of the one with this key, or beside the others.
  const PlanEntry* Replace(PlanPin& pin, const PlanKey& key, uint64_t hash, std::unique_ptr<const Plan> plan);

  size_t size() const;
  // Calls that took the lock, for tests.
  int64_t slow_calls() const { return slow_calls_.load(); }

 private:
  struct Cell {
    std::atomic<uint64_t> hash{0};
    std::atomic<const PlanEntry*> entry{nullptr};
  };
  struct Table {
    explicit Table(size_t count) : sets(count), cells(new Cell[count * kWays]) {}
    Cell* SetOf(uint64_t hash_of_key) const { return &cells[(hash_of_key & (sets - 1)) * kWays]; }
    const size_t sets;
    const std::unique_ptr<Cell[]> cells;
  };

  using Entries = std::vector<std::unique_ptr<const PlanEntry>>;

  // Says when a build is over.
  class BuildScope {
   public:
    BuildScope(PlanCache& cache, const PlanKey& key) : cache_(cache), key_(key) {}
    ~BuildScope() { cache_.EndBuild(key_); }
    BuildScope(const BuildScope&) = delete;
    BuildScope& operator=(const BuildScope&) = delete;

   private:
    PlanCache& cache_;
    const PlanKey& key_;
  };

  const PlanEntry* BeginBuild(PlanPin& pin, const PlanKey& key, uint64_t hash);
  void EndBuild(const PlanKey& key);
  // All below with mutex_ held.
  // `gone`: plans that nobody uses any more, to be destroyed after the lock, since their memory may wait for the
  // device.
  const PlanEntry* Insert(PlanPin& pin, const PlanKey& key, uint64_t hash, std::unique_ptr<const Plan> plan,
                          Entries& gone);
  Cell* FreeCell(uint64_t hash);
  void Grow();
  void Retire(Cell& cell);

  std::atomic<const Table*> table_;
  std::atomic<uint32_t> clock_{0};  // ticks with every plan that is put in
  std::atomic<int64_t> slow_calls_{0};

  mutable std::mutex mutex_;
  std::condition_variable built_;
  std::vector<std::unique_ptr<const Table>> tables_;  // former ones stay, empty: a reader may be in them
  Entries retired_;
  std::vector<const PlanKey*> building_;  // keys on the stacks of the threads that build
};

}  // namespace cudaep::ops
