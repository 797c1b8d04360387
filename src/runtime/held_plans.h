// The plans that a CUDA graph was captured with: in use, as those that streams have announced (runtime/plan_pins.h)
// are, for as long as the graph lives.
//
// Threads: one at a time, while PlanPins::All of other threads reads.
#pragma once

#include <vector>

namespace cudaep {

class HeldPlans {
 public:
  HeldPlans();
  ~HeldPlans();
  HeldPlans(const HeldPlans&) = delete;
  HeldPlans& operator=(const HeldPlans&) = delete;

  // A plan that the caller has announced, so that it is in use without a gap.
  void Hold(const void* plan);

 private:
  friend class PlanPins;
  std::vector<const void*> plans_;  // guarded by the mutex of the list of all pins
};

}  // namespace cudaep
