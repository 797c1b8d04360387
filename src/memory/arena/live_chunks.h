// The chunks that are handed out, found by their address.
//
// Threads: guarded by the owner's lock, but for Find, which any thread may call at any time without a lock: a hash
// table of atomic entries, each the address and its chunk. Tables that were grown out of stay for those who still read
// them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace cudaep::memory {

struct Chunk;

class LiveChunks {
 public:
  LiveChunks();

  void Insert(Chunk* chunk);
  // Null for an address that is not live.
  Chunk* Remove(const void* data);
  // The same without removing it. While another thread removes chunks it may be null for a live one; it is never wrong.
  Chunk* Find(const void* data) const;
  size_t count() const { return count_; }
  template <class F>
  void ForEach(F&& visit) const {
    const Table& table = *table_.load(std::memory_order_relaxed);
    for (size_t i = 0; i <= table.mask; ++i) {
      const Chunk* const chunk = table.entries[i].chunk.load(std::memory_order_relaxed);
      if (chunk != nullptr) visit(*chunk);
    }
  }

 private:
  // Open addressing with linear probing.
  struct Entry {
    std::atomic<const void*> data{nullptr};
    std::atomic<Chunk*> chunk{nullptr};
    void Set(const void* new_data, Chunk* new_chunk);
  };
  struct Table {
    explicit Table(unsigned bits)
        : shift(64 - bits), mask((size_t{1} << bits) - 1), entries(std::make_unique<Entry[]>(mask + 1)) {}
    // Chunks are aligned to 256 bytes.
    size_t Home(const void* data) const {
      return (reinterpret_cast<uintptr_t>(data) >> 8) * 0x9e3779b97f4a7c15u >> shift;
    }
    void Add(const void* data, Chunk* chunk);
    const unsigned shift;
    const size_t mask;
    const std::unique_ptr<Entry[]> entries;
  };
  static constexpr unsigned kFirstBits = 9;

  std::vector<std::unique_ptr<Table>> tables_;
  std::atomic<Table*> table_;  // the last of them
  size_t count_ = 0;
};

}  // namespace cudaep::memory
