#include "runtime/plan_pins.h"

#include <algorithm>
#include <mutex>

#include "runtime/held_plans.h"

namespace cudaep {
namespace {

// Never destroyed: streams may end in static destructors.
struct LivePins {
  std::mutex mutex;
  std::vector<const PlanPins*> pins;   // guarded by mutex
  std::vector<const HeldPlans*> held;  // guarded by mutex
};
LivePins& Live() {
  static auto* const live = new LivePins;
  return *live;
}

}  // namespace

PlanPins::PlanPins() {
  std::lock_guard lock(Live().mutex);
  Live().pins.push_back(this);
}

PlanPins::~PlanPins() {
  std::lock_guard lock(Live().mutex);
  std::erase(Live().pins, this);
}

HeldPlans::HeldPlans() {
  std::lock_guard lock(Live().mutex);
  Live().held.push_back(this);
}

HeldPlans::~HeldPlans() {
  std::lock_guard lock(Live().mutex);
  std::erase(Live().held, this);
}

void HeldPlans::Hold(const void* plan) {
  std::lock_guard lock(Live().mutex);
  plans_.push_back(plan);
}

std::vector<const void*> PlanPins::All() {
  std::vector<const void*> all;
  std::lock_guard lock(Live().mutex);
  for (const PlanPins* pins : Live().pins) {
    for (const auto& slot : pins->slots_) {
      if (const void* plan = slot.load(std::memory_order_seq_cst)) all.push_back(plan);
    }
  }
  for (const HeldPlans* held : Live().held) all.insert(all.end(), held->plans_.begin(), held->plans_.end());
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace cudaep
