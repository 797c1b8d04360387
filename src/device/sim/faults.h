// Which calls a test wants to fail. Guarded by the simulator's lock.
#pragma once

#include <cstdint>
#include <vector>

#include "device/sim/sim.h"

namespace cudaep::device::sim {

class FaultPlan {
 public:
  void FailCall(CallKind kind, uint64_t nth, Status status, uint64_t count);
  void FailRandomly(CallKind kind, double probability, uint64_t seed, Status status);
  void OutOfMemoryAt(uint64_t nth);
  void Clear();

  // The error this call of `kind` shall return.
  Status Next(CallKind kind);
  // Whether this allocation of device memory shall find none.
  bool NextAllocationFails();

 private:
  struct Counted {
    CallKind kind;
    uint64_t skip, count;
    Status status;
  };
  struct Random {
    CallKind kind;
    double probability;
    uint64_t state;
    Status status;
  };
  std::vector<Counted> counted_;
  std::vector<Random> random_;
  uint64_t allocations_until_failure_ = 0;  // 0: none planned
};

}  // namespace cudaep::device::sim
