// Blocks that allocators declared inside allocations (DeclareBlock), and those that have ended lately, for messages.
//
// Blocks may lie inside blocks, never across each other's borders. Threads: guarded by the simulator's lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "device/device.h"

namespace cudaep::device::sim {

inline constexpr uint32_t kNoStream = ~0u;

struct Block {
  uintptr_t begin = 0, end = 0;
  uint64_t serial = 0;
  uint64_t born = 0, died = 0;  // numbers of calls
  Stream stream = nullptr;
  uint32_t stream_id = kNoStream;  // tells streams of one handle apart; kNoStream: memory of any stream
  uintptr_t outer = 0;             // where the block begins that it lies in; 0: none
  unsigned depth = 0;              // how many it lies in
  bool captured = false;           // work in a graph uses it

  std::string Describe() const;
};

class BlockTable {
 public:
  const Block& Declare(Block block);
  // The innermost block that starts at `begin`, which ends; null if there is none. Valid until the next call.
  const Block* End(uintptr_t begin, uint64_t call);
  // The innermost live block that contains `address`, or ends there if none contains it.
  const Block* Find(uintptr_t address) const;
  // The block, not the innermost but the outermost, that `block` lies in.
  const Block& OutermostOf(const Block& block) const;
  // Work in a graph uses `address`: the innermost block that contains it, and those around that, are captured.
  void MarkCaptured(uintptr_t address);
  // The last block that ended of those that contained `address`; null if it is not remembered.
  const Block* FindEnded(uintptr_t address) const;
  // Calls function(begin, end) for the parts of [begin, end) that lie in no live block.
  template <class Function>
  void ForEachGap(uintptr_t begin, uintptr_t end, Function function) const {
    while (begin < end) {
      if (const Block* over = Find(begin); over != nullptr && over->end > begin) {
        begin = OutermostOf(*over).end;
        continue;
      }
      const auto next = live_.lower_bound({begin, 0});
      const uintptr_t gap_end = next == live_.end() ? end : std::min(end, next->second.begin);
      function(begin, gap_end);
      begin = gap_end;
    }
  }
  // Work on [begin, end) of a block that has ended is queued, or its last piece has run.
  void AddQueued(uintptr_t begin, uintptr_t end) { queued_.emplace(begin, end); }
  void EndQueued(uintptr_t begin, uintptr_t end) { queued_.extract({begin, end}); }
  // Calls function(begin, end) for the parts of [begin, end) that queued work of ended blocks may use.
  template <class Function>
  void ForEachQueued(uintptr_t begin, uintptr_t end, Function function) const {
    for (auto part = queued_.begin(); part != queued_.end() && part->first < end; ++part) {
      if (part->second > begin) function(std::max(begin, part->first), std::min(end, part->second));
    }
  }
  // The memory is gone, and all blocks in it.
  void Forget(uintptr_t begin, uintptr_t end);
  void Clear();

 private:
  using Key = std::pair<uintptr_t, unsigned>;  // begin and depth
  std::map<Key, Block> live_;
  std::deque<Block> ended_;
  std::multiset<std::pair<uintptr_t, uintptr_t>> queued_;  // begin and end
  uint64_t serial_ = 0;
};

}  // namespace cudaep::device::sim
