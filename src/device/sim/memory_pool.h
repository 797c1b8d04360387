// A stream-ordered memory pool: how much it holds, how much of it is in use, and who may have the rest.
//
// It keeps account of bytes; addresses come from the heap and are not reused soon, so that a late use is found. Memory
// is compact: free bytes never lie apart, a request fits when enough of them are ordered before it.
//
// Threads: guarded by the simulator's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/checked_math.h"
#include "device/sim/clock.h"
#include "device/sim/heap.h"
#include "device/sim/sim.h"

namespace cudaep::device::sim {

inline constexpr size_t kPoolStepBytes = size_t{2} << 20;  // what pools take from the driver and give back at a time
inline constexpr size_t kPoolAlignmentBytes = 512;

// Bytes whose free is queued as operation `sequence` of the stream in `slot`.
struct PoolCredit {
  size_t bytes = 0;  // not yet handed out again
  uint32_t slot = 0;
  uint64_t sequence = 0;
};

}  // namespace cudaep::device::sim

namespace cudaep::device {

// reserved = used + idle + what pending frees hold.
struct MemoryPoolHandle {
  MemoryPoolHandle(int device, sim::Counters* device_counters) : ordinal(device), counters(device_counters) {}

  const int ordinal;
  sim::Counters* const counters;  // of the device
  size_t reserved = 0, used = 0;
  size_t release_threshold = 0;
  bool destroyed = false;

  // Takes `bytes` for the stream in `slot`, which is ordered after what `clock` covers. Grows by `*growth` bytes; the
  // caller has found out by Missing and taken them from the heap.
  void Take(size_t bytes, uint32_t slot, const sim::Clock& clock, size_t growth);
  // How many bytes the pool must take from the driver for such a request; a multiple of the step.
  size_t Missing(size_t bytes, uint32_t slot, const sim::Clock& clock) const;
  // What Take took goes back at once: the request failed, or the device was waited for.
  void Return(sim::Heap* heap, size_t bytes);

  std::shared_ptr<sim::PoolCredit> QueueFree(size_t bytes, uint32_t slot, uint64_t sequence);
  // The free that was just announced could not be queued: the memory is in use as before.
  void Revoke(const std::shared_ptr<sim::PoolCredit>& credit);
  // The free has run.
  void Complete(sim::Heap* heap, const std::shared_ptr<sim::PoolCredit>& credit);

  // Gives idle bytes back, in whole steps; at least `keep` stay reserved.
  void Trim(sim::Heap* heap, size_t keep);

 private:
  static size_t Rounded(size_t bytes) { return AlignUp(bytes, sim::kPoolAlignmentBytes); }

  size_t idle_ = 0;  // free for every stream
  std::vector<std::shared_ptr<sim::PoolCredit>> pending_;
};

}  // namespace cudaep::device
