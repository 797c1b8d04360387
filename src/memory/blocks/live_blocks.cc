#include "memory/blocks/live_blocks.h"

#include "core/checked_math.h"
#include "core/log.h"
#include "memory/allocation_label.h"
#include "memory/user_table.h"

namespace cudaep::memory {

std::optional<size_t> LiveBlocks::RoundUp(size_t bytes) {
  if (bytes > SIZE_MAX / 2) return std::nullopt;
  return AlignUp(bytes, kAlignmentBytes);
}

void LiveBlocks::Insert(void* pointer, Block block) {
  block.label = CurrentLabel();
  stats.CountUse(block.bytes);
  ++(block.owner == BlockOwner::kReserved ? stats.reserves : stats.allocations);
  blocks_[pointer] = block;
}

std::optional<Block> LiveBlocks::Remove(void* pointer) {
  const auto found = blocks_.find(pointer);
  if (found == blocks_.end()) {
    Log(LogLevel::kError, "free of ", pointer, ", which is not live memory of this allocator; ignored");
    return std::nullopt;
  }
  const Block block = found->second;
  blocks_.erase(found);
  stats.CountFree(block.bytes);
  return block;
}

void LiveBlocks::ReleaseStream(device::Stream stream) {
  for (auto& [pointer, block] : blocks_) {
    if (block.owner != BlockOwner::kStream || block.stream != stream) continue;
    block.owner = BlockOwner::kNobody;
    block.captured = false;
  }
}

std::vector<MemoryUser> LiveBlocks::LargestUsers(size_t most) const {
  UserTable users;
  for (const auto& [pointer, block] : blocks_) users.Add(block.label, block.bytes);
  return users.Largest(most);
}

}  // namespace cudaep::memory
