#include "device/sim/faults.h"

#include "device/sim/random.h"

namespace cudaep::device::sim {

void FaultPlan::FailCall(CallKind kind, uint64_t nth, Status status, uint64_t count) {
  counted_.push_back({kind, nth == 0 ? 0 : nth - 1, count, std::move(status)});
}

void FaultPlan::FailRandomly(CallKind kind, double probability, uint64_t seed, Status status) {
  random_.push_back({kind, probability, seed, std::move(status)});
}

void FaultPlan::OutOfMemoryAt(uint64_t nth) { allocations_until_failure_ = nth; }

void FaultPlan::Clear() { *this = FaultPlan(); }

Status FaultPlan::Next(CallKind kind) {
  Status result;
  for (Counted& fault : counted_) {
    if (fault.kind != kind && fault.kind != CallKind::kAny) continue;
    if (fault.skip != 0) {
      --fault.skip;
    } else if (fault.count != 0) {
      --fault.count;
      result = fault.status;
    }
  }
  for (Random& fault : random_) {
    if (fault.kind != kind && fault.kind != CallKind::kAny) continue;
    if (RandomFraction(&fault.state) < fault.probability) result = fault.status;
  }
  return result;
}

bool FaultPlan::NextAllocationFails() { return allocations_until_failure_ != 0 && --allocations_until_failure_ == 0; }

}  // namespace cudaep::device::sim
