// Which plans the thread of a stream is using, so that a plan which leaves a cache is not destroyed under it.
//
// Readers of a plan cache (ops/plan_cache.h) announce a plan here before they use it: one store to memory of their own
// stream, no counter that threads share. Whoever takes a plan out of a cache asks afterwards who has it announced.
// Threads: slots are written by the thread that runs the stream and read by any.
#pragma once

#include <array>
#include <atomic>
#include <vector>

namespace cudaep {

class alignas(64) PlanPins {
 public:
  static constexpr int kMaxDepth = 4;  // a node's call inside another's, on one stream

  PlanPins();
  ~PlanPins();
  PlanPins(const PlanPins&) = delete;
  PlanPins& operator=(const PlanPins&) = delete;

  // What all streams of the process have announced, sorted.
  static std::vector<const void*> All();

 private:
  friend class PlanPin;
  std::array<std::atomic<const void*>, kMaxDepth> slots_{};
  int depth_ = 0;
};

// One announcement, for a scope. More than kMaxDepth of one stream at a time are a mistake of the caller's: the
// innermost then take over each other's slot.
class PlanPin {
 public:
  explicit PlanPin(PlanPins& pins) : pins_(pins), slot_(pins.slots_[Index(pins.depth_++)]) {}
  ~PlanPin() {
    slot_.store(nullptr, std::memory_order_release);
    --pins_.depth_;
  }
  PlanPin(const PlanPin&) = delete;
  PlanPin& operator=(const PlanPin&) = delete;

  // From now on `plan` is in use, and what was set before is not. The caller checks afterwards that the plan is still
  // where it was found.
  void Set(const void* plan) { slot_.store(plan, std::memory_order_seq_cst); }

 private:
  static size_t Index(int depth) {
    return static_cast<size_t>(depth < PlanPins::kMaxDepth ? depth : PlanPins::kMaxDepth - 1);
  }
  PlanPins& pins_;
  std::atomic<const void*>& slot_;
};

}  // namespace cudaep
