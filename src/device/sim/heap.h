// Memory of one simulated device, or the pinned memory of the host: a reserved address range and its allocations.
//
// Every allocation lies between red zones, new memory is filled with NaN patterns, freed memory is filled again and
// stays out of reuse for a while, so that a late use can be named with the allocation's history.
//
// Threads: guarded by the simulator's lock. Failure: Allocate returns null when capacity or addresses run out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "core/status.h"
#include "device/sim/actor.h"

namespace cudaep::device {
struct MemoryPoolHandle;
}  // namespace cudaep::device

namespace cudaep::device::sim {

inline constexpr unsigned char kFreshByte = 0xff;  // NaN in every floating point type, -1 in every integer
inline constexpr unsigned char kRedZoneByte = 0xfb;

struct Allocation {
  enum class State : uint8_t { kLive, kFreeQueued, kFreed };

  uintptr_t begin = 0;
  size_t bytes = 0;
  uintptr_t chunk_begin = 0;  // with red zones
  size_t chunk_bytes = 0;
  State state = State::kLive;
  bool stream_ordered = false;
  bool divided = false;                    // used through the blocks that were declared in it
  bool growable = false;                   // Heap::Reserve made it: addresses follow that are not mapped
  uint64_t serial = 0;                     // counts allocations of the process
  uint64_t born = 0, died = 0;             // numbers of the calls that allocated and freed it
  Actor last_writer;                       // for messages
  std::shared_ptr<MemoryPoolHandle> pool;  // whose reserve holds the bytes; null: counted by the heap itself

  uintptr_t end() const { return begin + bytes; }
  size_t quarantine_bytes() const { return growable ? bytes : chunk_bytes; }
  // "allocation 7 (4096 bytes at 0x..., made by call 12, freed by call 40, last written by AddKernel on stream 2)"
  std::string Describe() const;
};

class Heap {
 public:
  // [base, base + range_bytes) is reserved and not accessible yet. `keyed`: host code stays out (memory_key.h).
  Heap(uintptr_t base, size_t range_bytes, size_t capacity_bytes, size_t quarantine_bytes, bool guard_pages,
       bool keyed);
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Null when `bytes` do not fit. `call` numbers the call for histories. With a pool the bytes were taken before.
  Allocation* Allocate(size_t bytes, uint64_t call, std::shared_ptr<MemoryPoolHandle> pool = nullptr);
  // An allocation of no bytes with addresses for `most_bytes`, for Resize. Null when there are none left.
  Allocation* Reserve(size_t most_bytes, uint64_t call);
  // Moves the end of what Reserve made; its owner keeps the account of capacity.
  void Resize(Allocation* allocation, size_t bytes);
  // Capacity without addresses, for pools. False when it does not fit.
  bool TakeBytes(size_t bytes);
  void GiveBytes(size_t bytes) { used_bytes_ -= bytes; }
  // The allocation, live or freed but not yet reused, whose memory or red zones contain `address`; null for none.
  Allocation* Find(uintptr_t address);
  // The memory is poisoned and enters quarantine; `allocation` stays findable until it leaves it.
  void Release(Allocation* allocation, uint64_t call);
  bool Contains(uintptr_t address) const { return address - base_ < range_bytes_; }

  Status CheckRedZone(const Allocation& allocation) const;
  Status CheckRedZones() const;

  size_t capacity() const { return capacity_bytes_; }
  size_t used() const { return used_bytes_; }
  size_t peak() const { return peak_bytes_; }
  size_t live() const { return live_.size(); }

 private:
  struct Span {
    uintptr_t begin;
    size_t bytes;
  };
  uintptr_t TakeAddresses(size_t bytes);
  void ReturnAddresses(uintptr_t begin, size_t bytes);
  bool Open(uintptr_t begin, size_t bytes) const;
  bool Commit(uintptr_t end);
  void EvictOldest();
  uintptr_t TakeChunk(size_t bytes);
  uintptr_t TakeReserve(size_t bytes);
  void Forget(const Allocation& growable);
  void MarkEnd(const Allocation& allocation);

  const uintptr_t base_;
  const size_t range_bytes_, capacity_bytes_, quarantine_limit_;
  const bool guard_pages_, keyed_;
  uintptr_t top_;  // growable memory is reserved from the end of the range downwards, apart from everything else
  std::map<uintptr_t, size_t> free_reserves_;
  uintptr_t frontier_, committed_;  // addresses from here on were never given out; never made accessible
  size_t used_bytes_ = 0, peak_bytes_ = 0, quarantine_used_ = 0;
  std::map<uintptr_t, std::unique_ptr<Allocation>> allocations_;  // by chunk_begin
  std::map<uintptr_t, const Allocation*> live_;                   // of them those that were not freed
  std::map<uintptr_t, size_t> free_;                              // address ranges that may be reused
  std::deque<Allocation*> quarantine_;
};

}  // namespace cudaep::device::sim
