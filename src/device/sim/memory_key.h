// A processor's protection key on the memory of simulated devices: host code that touches it stops at the access, as
// with a GPU's memory. Without such keys (`pku` in the processor's flags) the memory is open to everybody.
//
// Threads: rights belong to the calling thread; no thread has any at its start.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cudaep::device::sim {

// Whether this machine has keys.
bool MemoryIsKeyed();
// Makes [begin, begin + bytes), whole pages, readable and writable for threads with rights. False as mprotect fails.
bool OpenKeyedMemory(uintptr_t begin, size_t bytes);

// While one lives, the thread has the rights to keyed memory, or has them not.
class MemoryRights {
 public:
  explicit MemoryRights(bool allowed);
  ~MemoryRights();
  MemoryRights(const MemoryRights&) = delete;
  MemoryRights& operator=(const MemoryRights&) = delete;

 private:
  int before_;
};

}  // namespace cudaep::device::sim
