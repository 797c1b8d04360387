// The blocks an allocator has handed out, with their users and the statistics that follow from them.
//
// For allocators whose memory comes block by block from somewhere else (the driver's pool, the caller's callbacks).
// Threads: guarded by the owner's lock.
#pragma once

#include <cstddef>
#include <optional>
#include <unordered_map>
#include <vector>

#include "memory/allocator.h"

namespace cudaep::memory {

// Who may have used a block that is freed.
enum class BlockOwner : uint8_t {
  kStream,     // the stream it was allocated on
  kAnyStream,  // whoever is known; allocated without a stream
  kNobody,     // its stream is gone, and the stream's work done
  kReserved,   // whoever is known; for the life of a session
};

struct Block {
  size_t bytes = 0;
  BlockOwner owner = BlockOwner::kAnyStream;
  bool captured = false;  // handed out or freed while its stream was capturing: it stays with the stream
  device::Stream stream = nullptr;
  const char* label = nullptr;
};

class LiveBlocks {
 public:
  // `bytes` up to the alignment; nothing when no memory can be as large.
  static std::optional<size_t> RoundUp(size_t bytes);

  // Counts a successful request; labels the block with the calling thread's label.
  void Insert(void* pointer, Block block);
  // Nothing for a pointer that is not live, which is logged.
  std::optional<Block> Remove(void* pointer);
  // Blocks of the stream belong to nobody from now on.
  void ReleaseStream(device::Stream stream);

  size_t size() const { return blocks_.size(); }
  std::vector<MemoryUser> LargestUsers(size_t most) const;
  template <class F>
  void ForEach(F&& visit) const {
    for (const auto& [pointer, block] : blocks_) visit(pointer, block);
  }

  AllocatorStats stats;

 private:
  std::unordered_map<void*, Block> blocks_;
};

}  // namespace cudaep::memory
