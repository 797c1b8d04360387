// Memory that the ranks of a simulated group share: what each has to say, and what it gives the others.
//
// Ranks are processes, or sessions of one: everything is POSIX shared memory under the group's name, which is gone once
// all have opened it. A rank holds a lock on its own part for as long as it lives, however it ends.
// Threads: one at a time.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"

namespace cudaep::comm {

// What an operation is, alike in all ranks.
struct Signature {
  uint8_t operation = 0, type = 0, reduction = 0;
  uint64_t elems = 0;
  bool operator==(const Signature&) const = default;
};

class SharedRanks {
 public:
  // Waits until all `size` ranks have come.
  Status Open(const std::string& name, int rank, int size, std::chrono::steady_clock::time_point end);
  SharedRanks() = default;
  ~SharedRanks();
  SharedRanks(const SharedRanks&) = delete;
  SharedRanks& operator=(const SharedRanks&) = delete;

  // Operations are numbered from 1. All that a rank has posted, and has taken from the others.
  uint64_t posted(int rank) const { return slots_[rank].posted.load(std::memory_order_acquire); }
  uint64_t taken(int rank) const { return slots_[rank].taken.load(std::memory_order_acquire); }
  const Signature& signature(int rank) const { return slots_[rank].signature; }
  bool HasEnded(int rank) const;

  // Gives the others `bytes` for operation `number`; all have taken what was there before.
  Status Post(uint64_t number, const Signature& signature, const void* data, size_t bytes);
  // What `rank` has posted last.
  Result<const std::byte*> DataOf(int rank);
  void Take(uint64_t number) { slots_[rank_].taken.store(number, std::memory_order_release); }

 private:
  struct alignas(64) Slot {
    std::atomic<uint64_t> joined, opened, posted, taken, bytes;
    Signature signature;
  };
  static_assert(std::atomic<uint64_t>::is_always_lock_free, "shared between processes");
  struct Part {
    int file = -1;
    void* mapped = nullptr;
    size_t bytes = 0;
  };

  std::string PartName(int rank) const;
  Status WaitForAll(std::atomic<uint64_t> Slot::*sign, std::chrono::steady_clock::time_point end) const;
  Status Map(Part* part, size_t bytes, bool writable) const;

  std::string name_;
  int rank_ = 0, size_ = 0;
  void* control_ = nullptr;
  Slot* slots_ = nullptr;
  std::vector<Part> parts_;
};

}  // namespace cudaep::comm
