// Freed blocks that queued work may still use, or that a captured graph may have recorded.
//
// A block goes to its own stream at once, to anybody once the streams it waits for are past its points, and never to
// anybody else while it is `captured`: then it stays until its stream is released.
// Searches are linear: few blocks are held at a time.
// Threads: guarded by the owner's lock.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "memory/blocks/live_blocks.h"
#include "memory/stream_progress.h"

namespace cudaep::memory {

struct HeldBlock {
  void* pointer = nullptr;
  Block block;
  std::vector<StreamProgress::Point> points;  // all must be past
};

class HeldBlocks {
 public:
  void Add(HeldBlock held) { blocks_.push_back(std::move(held)); }
  // A block that serves the request `request`: of its stream, or past its points. `request` gets the block's size and
  // mark. For a capturing stream (`captured`) only its own blocks do, however large.
  std::optional<HeldBlock> TakeFor(size_t bytes, Block* request, StreamProgress* progress);
  // All blocks past their points.
  std::vector<HeldBlock> TakeAllPast(const StreamProgress& progress);
  std::vector<HeldBlock> TakeAll() { return std::exchange(blocks_, {}); }
  void ReleaseStream(device::Stream stream);

  size_t size() const { return blocks_.size(); }

 private:
  enum class Fit : uint8_t {
    kClose,     // at most an eighth larger than asked for
    kSmallest,  // whatever fits best
  };
  std::optional<HeldBlock> TakeOf(device::Stream stream, size_t bytes, Fit fit);
  std::optional<HeldBlock> TakePast(const StreamProgress& progress, size_t bytes);
  template <class F>
  std::optional<HeldBlock> TakeBest(size_t bytes, Fit fit, F&& usable);

  std::vector<HeldBlock> blocks_;
};

}  // namespace cudaep::memory
