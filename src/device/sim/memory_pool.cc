#include "device/sim/memory_pool.h"

#include <algorithm>

namespace cudaep::device {
namespace {

// Whether a stream may have what `credit` holds before the free has run.
bool Precedes(const sim::PoolCredit& credit, uint32_t slot, const sim::Clock& clock) {
  return credit.slot == slot || clock.Covers(credit.slot, credit.sequence);
}

}  // namespace

size_t MemoryPoolHandle::Missing(size_t bytes, uint32_t slot, const sim::Clock& clock) const {
  size_t free = idle_;
  for (const auto& credit : pending_) {
    if (Precedes(*credit, slot, clock)) free += credit->bytes;
  }
  const size_t needed = Rounded(bytes);
  return needed <= free ? 0 : AlignUp(needed - free, sim::kPoolStepBytes);
}

void MemoryPoolHandle::Take(size_t bytes, uint32_t slot, const sim::Clock& clock, size_t growth) {
  size_t needed = Rounded(bytes);
  used += needed;
  reserved += growth;
  idle_ += growth;
  if (growth != 0) ++counters->pool_growths;
  // Ordered frees first: what is idle serves every stream.
  for (const auto& credit : pending_) {
    if (!Precedes(*credit, slot, clock)) continue;
    const size_t taken = std::min(needed, credit->bytes);
    credit->bytes -= taken;
    needed -= taken;
  }
  idle_ -= needed;
}

void MemoryPoolHandle::Return(sim::Heap* heap, size_t bytes) {
  used -= Rounded(bytes);
  idle_ += Rounded(bytes);
  if (destroyed) Trim(heap, 0);
}

std::shared_ptr<sim::PoolCredit> MemoryPoolHandle::QueueFree(size_t bytes, uint32_t slot, uint64_t sequence) {
  const size_t size = Rounded(bytes);
  used -= size;
  pending_.push_back(std::make_shared<sim::PoolCredit>(sim::PoolCredit{size, slot, sequence}));
  return pending_.back();
}

void MemoryPoolHandle::Revoke(const std::shared_ptr<sim::PoolCredit>& credit) {
  used += credit->bytes;
  std::erase(pending_, credit);
}

void MemoryPoolHandle::Complete(sim::Heap* heap, const std::shared_ptr<sim::PoolCredit>& credit) {
  idle_ += credit->bytes;
  std::erase(pending_, credit);
  if (destroyed) Trim(heap, 0);
}

void MemoryPoolHandle::Trim(sim::Heap* heap, size_t keep) {
  if (reserved <= keep) return;
  const size_t steps = std::min((reserved - keep) / sim::kPoolStepBytes, idle_ / sim::kPoolStepBytes);
  if (steps == 0) return;
  const size_t bytes = steps * sim::kPoolStepBytes;
  idle_ -= bytes;
  reserved -= bytes;
  heap->GiveBytes(bytes);
  ++counters->pool_releases;
}

}  // namespace cudaep::device
