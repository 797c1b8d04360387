// An operator with its plans: the part of a node's execution that is the same for the host, a region and a test.
//
// Plans are kept by input shapes and host-input values: the last one in an inline slot, which a steady Run hits with
// one comparison and no lock, and up to kMaxPlans of them in a table behind a mutex that also makes concurrent misses
// of one key build one plan.
//
// Lifetime of a plan: a Pin keeps every plan that its thread may see. Evicted plans wait in a graveyard that a later
// miss empties when no other thread holds a pin.
// Threads: all methods may run concurrently.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "ops/registry.h"

namespace cudaep::ops {

class PlannedOperator {
 public:
  static constexpr size_t kMaxPlans = 64;

  PlannedOperator() = default;
  PlannedOperator(const PlannedOperator&) = delete;
  PlannedOperator& operator=(const PlannedOperator&) = delete;
  ~PlannedOperator();

  // Creates the operator of `info` and notes which host inputs its plans depend on.
  Status Init(const OpInfo& info);

  const Operator& op() const { return *op_; }

  class Pin {
   public:
    explicit Pin(PlannedOperator& owner) : owner_(owner) { owner_.pins_.fetch_add(1); }
    ~Pin() { owner_.pins_.fetch_sub(1); }
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;

   private:
    PlannedOperator& owner_;
  };

  // The plan for these inputs, as many and of the types that `info` said; valid while `pin` lives. `plan.outputs` has
  // the output shapes.
  Result<const Plan*> PlanFor(const Pin& pin, TensorViews inputs, StreamContext& stream) {
    const Entry* entry = slot_.load();
    if (entry != nullptr && Matches(*entry, inputs)) [[likely]]
      return entry->plan.get();
    return PlanSlow(pin, inputs, stream);
  }

  // Reserves scratch memory and launches. Does nothing when every output is empty. Where there is no memory for the
  // plan's scratch, a plan that needs less takes its place. The caller still holds the pin that `plan` came with.
  Status Enqueue(const Plan& plan, TensorViews inputs, void* const* outputs, StreamContext& stream);

  size_t plan_count() const;

 private:
  struct Entry {
    std::vector<int64_t> key;
    std::unique_ptr<const Plan> plan;
    uint64_t last_use = 0;
  };

  bool Matches(const Entry& entry, TensorViews inputs) const;
  std::vector<int64_t> KeyOf(TensorViews inputs) const;
  Result<const Plan*> PlanSlow(const Pin& pin, TensorViews inputs, StreamContext& stream);
  // The plan for these inputs again, with at most `workspace_bytes` or what the stream has already.
  Result<const Plan*> PlanSmaller(TensorViews inputs, StreamContext& stream, size_t workspace_bytes);
  Result<std::unique_ptr<const Plan>> BuildPlan(TensorViews inputs, StreamContext& stream) const;
  bool IsKeyedByValue(size_t index) const { return index < 64 && ((host_values_ >> index) & 1u); }

  OperatorPtr op_;
  size_t output_count_ = 0;
  uint64_t host_values_ = 0;  // host inputs whose values plans depend on, one bit each

  std::atomic<const Entry*> slot_{nullptr};
  std::atomic<int> pins_{0};
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Entry>> entries_;    // guarded by mutex_
  std::vector<std::unique_ptr<Entry>> graveyard_;  // guarded by mutex_
  uint64_t clock_ = 0;                             // guarded by mutex_
};

}  // namespace cudaep::ops
