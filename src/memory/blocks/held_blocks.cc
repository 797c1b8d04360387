#include "memory/blocks/held_blocks.h"

#include <algorithm>
#include <utility>

namespace cudaep::memory {

template <class F>
std::optional<HeldBlock> HeldBlocks::TakeBest(size_t bytes, Fit fit, F&& usable) {
  const size_t most = fit == Fit::kClose ? bytes + bytes / 8 : SIZE_MAX;
  auto best = blocks_.end();
  for (auto held = blocks_.begin(); held != blocks_.end(); ++held) {
    const size_t size = held->block.bytes;
    if (size < bytes || size > most || (best != blocks_.end() && size >= best->block.bytes)) continue;
    if (usable(*held)) best = held;
  }
  if (best == blocks_.end()) return std::nullopt;
  std::swap(*best, blocks_.back());
  HeldBlock taken = std::move(blocks_.back());
  blocks_.pop_back();
  return taken;
}

std::optional<HeldBlock> HeldBlocks::TakeOf(device::Stream stream, size_t bytes, Fit fit) {
  return TakeBest(bytes, fit, [stream](const HeldBlock& held) {
    return held.block.owner == BlockOwner::kStream && held.block.stream == stream;
  });
}

std::optional<HeldBlock> HeldBlocks::TakePast(const StreamProgress& progress, size_t bytes) {
  return TakeBest(bytes, Fit::kClose,
                  [&](const HeldBlock& held) { return !held.block.captured && progress.IsPast(held.points); });
}

std::optional<HeldBlock> HeldBlocks::TakeFor(size_t bytes, Block* request, StreamProgress* progress) {
  if (blocks_.empty()) return std::nullopt;
  std::optional<HeldBlock> held;
  if (request->owner == BlockOwner::kStream) {
    held = TakeOf(request->stream, bytes, request->captured ? Fit::kSmallest : Fit::kClose);
  }
  if (!held && !request->captured) {
    progress->Poll();
    held = TakePast(*progress, bytes);
  }
  if (!held) return std::nullopt;
  request->bytes = held->block.bytes;
  request->captured = request->captured || held->block.captured;
  return held;
}

std::vector<HeldBlock> HeldBlocks::TakeAllPast(const StreamProgress& progress) {
  const auto first = std::partition(blocks_.begin(), blocks_.end(), [&](const HeldBlock& held) {
    return held.block.captured || !progress.IsPast(held.points);
  });
  std::vector<HeldBlock> past(std::make_move_iterator(first), std::make_move_iterator(blocks_.end()));
  blocks_.erase(first, blocks_.end());
  return past;
}

// The stream's work is done, so what waits for it alone waits no longer.
void HeldBlocks::ReleaseStream(device::Stream stream) {
  for (HeldBlock& held : blocks_) {
    if (held.block.owner != BlockOwner::kStream || held.block.stream != stream) continue;
    held.block.owner = BlockOwner::kNobody;
    held.block.captured = false;
  }
}

}  // namespace cudaep::memory
