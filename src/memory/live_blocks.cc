#include "memory/live_blocks.h"

#include <algorithm>

#include "core/checked_math.h"
#include "core/log.h"
#include "memory/allocation_label.h"

namespace cudaep::memory {

std::optional<size_t> LiveBlocks::RoundUp(size_t bytes) {
  if (bytes > SIZE_MAX / 2) return std::nullopt;
  return AlignUp(bytes, kAlignmentBytes);
}

void LiveBlocks::Insert(void* pointer, Block block) {
  block.label = CurrentLabel();
  const auto bytes = static_cast<int64_t>(block.bytes);
  stats.bytes_in_use += bytes;
  stats.peak_bytes_in_use = std::max(stats.peak_bytes_in_use, stats.bytes_in_use);
  stats.largest_allocation_bytes = std::max(stats.largest_allocation_bytes, bytes);
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
  stats.bytes_in_use -= static_cast<int64_t>(block.bytes);
  return block;
}

void LiveBlocks::ReleaseStream(device::Stream stream) {
  for (auto& [pointer, block] : blocks_) {
    if (block.owner != BlockOwner::kStream || block.stream != stream) continue;
    block.owner = BlockOwner::kNobody;
    block.captured = false;
  }
}

void LiveBlocks::CountReserved(size_t bytes) {
  stats.bytes_reserved += static_cast<int64_t>(bytes);
  stats.peak_bytes_reserved = std::max(stats.peak_bytes_reserved, stats.bytes_reserved);
}

std::vector<MemoryUser> LiveBlocks::LargestUsers(size_t most) const {
  std::unordered_map<const char*, MemoryUser> by_label;
  for (const auto& [pointer, block] : blocks_) {
    MemoryUser& user = by_label[block.label];
    user.label = block.label;
    user.bytes += block.bytes;
    ++user.chunks;
  }
  std::vector<MemoryUser> users;
  users.reserve(by_label.size());
  for (const auto& [label, user] : by_label) users.push_back(user);
  std::sort(users.begin(), users.end(), [](const MemoryUser& a, const MemoryUser& b) { return a.bytes > b.bytes; });
  if (users.size() > most) users.resize(most);
  return users;
}

}  // namespace cudaep::memory
