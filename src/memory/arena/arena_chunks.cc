// The arena's free lists: which chunk serves a request, and how chunks are cut and merged.
#include <algorithm>

#include "core/checked_math.h"
#include "memory/allocation_label.h"
#include "memory/arena/arena.h"
#include "memory/relaxed_capture.h"

namespace cudaep::memory {
namespace {

// A chunk is cut when what is left over is at least this part of the request.
constexpr size_t kSplitDivisor = 32;

}  // namespace

ChunkBins& Arena::BinsOf(const Chunk& chunk) {
  return chunk.captured ? streams_[chunk.owner].captured : streams_[chunk.owner].bins;
}

// The best fit of the user's own chunks, of nobody's, of those of other streams that it may have: the first of them
// that is at most twice the request, else the best of all. A much larger chunk that is at hand would be missed later.
Chunk* Arena::FindUsable(size_t bytes, Slot user) {
  const auto is_good = [bytes](const Chunk* chunk) { return chunk != nullptr && chunk->bytes / 2 <= bytes; };
  const StreamState& own = streams_[user];
  Chunk* best = own.captured.Find(bytes, UINT64_MAX, own.bins.Find(bytes));
  if (is_good(best)) return best;
  best = streams_[kNobody].bins.Find(bytes, UINT64_MAX, best);
  if (is_good(best)) return best;
  for (Slot owner = 1; owner < streams_.size(); ++owner) {
    if (owner != user) best = streams_[owner].bins.Find(bytes, order_.Usable(user, owner), best);
  }
  return best;
}

// For a capturing stream: its own chunks, those of earlier captures first, then nobody's.
Chunk* Arena::FindCaptured(size_t bytes, Slot user) {
  if (Chunk* chunk = streams_[user].captured.Find(bytes)) return chunk;
  if (Chunk* chunk = streams_[user].bins.Find(bytes)) return chunk;
  return streams_[kNobody].bins.Find(bytes);
}

// What the graph had before, then what others may have; in a capture no stream is waited for and none waits.
Chunk* Arena::FindForGraph(Lock* lock, size_t bytes, Slot user, Status* why) {
  const bool captures = IsCapturing(order_.stream(user));
  Chunk* chunk = captures ? FindCaptured(bytes, user) : streams_[user].captured.Find(bytes);
  if (chunk == nullptr && !captures) chunk = FindUsable(bytes, user);
  if (chunk != nullptr) return chunk;
  if (!captures) return Search(lock, bytes, user, why);
  device::DeviceGuard guard(source_.ordinal);
  *why = guard.status();
  if (!why->ok()) return nullptr;
  RelaxedCapture relaxed;
  return Grow(bytes, user, false, why);
}

// A graph's chunks are charged as such.
void Arena::SetCaptured(Chunk* chunk, bool captured) {
  if (chunk->captured == captured) return;
  chunk->captured = captured;
  if (source_.budget == nullptr) return;
  const BudgetKind own = source_.budget_kind, graphs = BudgetKind::kGraphs;
  source_.budget->Move(captured ? own : graphs, captured ? graphs : own, chunk->bytes);
}

void* Arena::HandOut(Chunk* chunk, size_t bytes, Slot user, bool captured) {
  if (chunk->free) BinsOf(*chunk).Remove(chunk);
  const size_t rest = chunk->bytes - bytes;
  if (rest >= kAlignmentBytes && (rest > bytes / kSplitDivisor || rest > config_.max_dead_bytes_per_chunk)) {
    Chunk* const remainder = heap_.Split(chunk, bytes);
    BinsOf(*remainder).Insert(remainder);
  }
  SetCaptured(chunk, captured || (chunk->captured && chunk->owner == user));
  chunk->owner = user;
  chunk->life = order_.life(user);
  chunk->label = CurrentLabel();
  chunk->requested = bytes;
  chunk->cache = user < kCaches ? caches_[user].cache.get() : nullptr;
  heap_.PushLive(chunk);
  CountUse(bytes);
  stats_.CountLargest(bytes);
  ++stats_.allocations;
  return chunk->data;
}

// A chunk in no list becomes free.
void Arena::PutBack(Chunk* chunk) {
  chunk = MergeNeighbours(chunk);
  BinsOf(*chunk).Insert(chunk);
}

// A chunk becomes nobody's; returns what it has become part of.
Chunk* Arena::FreeForAll(Chunk* chunk) {
  if (chunk->free) BinsOf(*chunk).Remove(chunk);
  chunk->owner = kNobody;
  chunk->stamp = 0;
  SetCaptured(chunk, false);
  chunk = MergeNeighbours(chunk);
  BinsOf(*chunk).Insert(chunk);
  return chunk;
}

bool Arena::IsDone(const Chunk& chunk) const {
  return chunk.owner == kNobody || (!chunk.captured && chunk.stamp <= order_.Usable(kNobody, chunk.owner));
}

// Whether `gone` may become part of `kept` and take its tags.
bool Arena::MayMerge(const Chunk& kept, const Chunk& gone) const {
  if (!gone.free) return false;
  if (gone.owner == kept.owner) return gone.captured == kept.captured;
  return kept.owner == kNobody && IsDone(gone);
}

// `chunk` is in no list; neither is the result. More than one neighbour on a side: what lies behind one that was
// another stream's may be nobody's too.
Chunk* Arena::MergeNeighbours(Chunk* chunk) {
  const auto take = [&](Chunk* neighbour) {
    BinsOf(*neighbour).Remove(neighbour);
    neighbour->owner = chunk->owner;
    neighbour->captured = chunk->captured;
    if (chunk->owner == kNobody) neighbour->stamp = 0;
  };
  while (chunk->after != nullptr && MayMerge(*chunk, *chunk->after)) {
    take(chunk->after);
    heap_.MergeAfter(chunk);
  }
  while (chunk->before != nullptr && MayMerge(*chunk, *chunk->before)) {
    take(chunk->before);
    chunk = chunk->before;
    heap_.MergeAfter(chunk);
  }
  return chunk;
}

// Chunks that left a cache, linked by `bin_after`.
void Arena::PutBackList(Chunk* cached) {
  while (cached != nullptr) {
    Chunk* const chunk = cached;
    cached = chunk->bin_after;
    chunk->bin_after = nullptr;
    handed_out_ -= chunk->requested;
    heap_.PopLive(chunk->data);
    if (IsDone(*chunk)) {
      FreeForAll(chunk);
    } else {
      PutBack(chunk);
    }
  }
}

}  // namespace cudaep::memory
