// The chunks that are handed out, found by their address.
//
// Threads: any function from any thread. The table is cut in parts by address, each under a lock of its own, so that
// threads that look up different chunks seldom meet.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/spin_lock.h"

namespace cudaep::memory {

struct Chunk;

class LiveChunks {
 public:
  void Insert(Chunk* chunk);
  // Null for an address that is not live.
  Chunk* Find(const void* data) const;
  Chunk* Remove(const void* data);
  size_t count() const;
  // One part is locked at a time; `visit` must not call back.
  template <class F>
  void ForEach(F&& visit) const {
    for (const Part& part : parts_) {
      std::lock_guard lock(part.lock);
      for (const Chunk* chunk : part.entries) {
        if (chunk != nullptr) visit(*chunk);
      }
    }
  }

 private:
  static constexpr unsigned kPartBits = 5;
  // Open addressing with linear probing.
  struct alignas(64) Part {
    mutable SpinLock lock;
    unsigned shift = 64 - 4;  // for 16 entries
    size_t count = 0;
    std::vector<Chunk*> entries = std::vector<Chunk*>(16);

    size_t Home(const void* data) const { return Hash(data) << kPartBits >> shift; }
    void Add(Chunk* chunk);
    void Grow();
    size_t Search(const void* data) const;  // where it is, or the gap where it would be
  };
  // Chunks are aligned to 256 bytes.
  static size_t Hash(const void* data) { return (reinterpret_cast<uintptr_t>(data) >> 8) * 0x9e3779b97f4a7c15u; }
  Part& PartOf(const void* data) { return parts_[Hash(data) >> (64 - kPartBits)]; }
  const Part& PartOf(const void* data) const { return parts_[Hash(data) >> (64 - kPartBits)]; }

  std::array<Part, size_t{1} << kPartBits> parts_;
};

}  // namespace cudaep::memory
