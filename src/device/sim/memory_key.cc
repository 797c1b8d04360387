#include "device/sim/memory_key.h"

#include <sys/mman.h>

#include <cstdlib>

namespace cudaep::device::sim {
namespace {

// One for the process, kept to its end: memory may outlive every object of the simulator.
int Key() {
  static const int key = std::getenv("CUDAEP_SIM_OPEN_MEMORY") == nullptr ? pkey_alloc(0, PKEY_DISABLE_ACCESS) : -1;
  return key;
}

}  // namespace

bool MemoryIsKeyed() { return Key() >= 0; }

bool OpenKeyedMemory(uintptr_t begin, size_t bytes) {
  auto* const memory = reinterpret_cast<void*>(begin);
  // Key -1 asks for a plain mprotect.
  return pkey_mprotect(memory, bytes, PROT_READ | PROT_WRITE, Key()) == 0;
}

MemoryRights::MemoryRights(bool allowed) : before_(MemoryIsKeyed() ? pkey_get(Key()) : 0) {
  if (MemoryIsKeyed()) pkey_set(Key(), allowed ? 0 : PKEY_DISABLE_ACCESS);
}

MemoryRights::~MemoryRights() {
  if (MemoryIsKeyed()) pkey_set(Key(), static_cast<unsigned>(before_));
}

}  // namespace cudaep::device::sim
