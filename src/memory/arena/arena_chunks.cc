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
Chunk* Arena::FindUsable(size_t bytes, ChunkOwner user) {
  const auto is_good = [bytes](const Chunk* chunk) { return chunk != nullptr && chunk->bytes / 2 <= bytes; };
  const StreamState& own = streams_[user];
  Chunk* best = own.bins.Find(bytes);
  best = own.captured.FindBetter(bytes, UINT64_MAX, best);
  if (is_good(best)) return best;
  best = streams_[kNobody].bins.FindBetter(bytes, UINT64_MAX, best);
  if (is_good(best)) return best;
  for (ChunkOwner owner = 1; owner < streams_.size(); ++owner) {
    if (owner != user) best = streams_[owner].bins.FindBetter(bytes, UsableBy(own, owner), best);
  }
  return best;
}

// For a capturing stream: its own chunks, those of earlier captures first, then nobody's.
Chunk* Arena::FindCaptured(size_t bytes, ChunkOwner user) {
  if (Chunk* chunk = streams_[user].captured.Find(bytes)) return chunk;
  if (Chunk* chunk = streams_[user].bins.Find(bytes)) return chunk;
  return streams_[kNobody].bins.Find(bytes);
}

// What the graph had before, then what others may have; in a capture no stream is waited for and none waits.
Chunk* Arena::FindForGraph(Lock* lock, size_t bytes, ChunkOwner user, Status* why) {
  const bool captures = IsCapturing(streams_[user].stream);
  Chunk* chunk = captures ? FindCaptured(bytes, user) : streams_[user].captured.Find(bytes);
  if (chunk == nullptr && !captures) chunk = FindUsable(bytes, user);
  if (chunk != nullptr) return chunk;
  if (!captures) return SlowFind(lock, bytes, user, why);
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
  Budget* const budget = source_.budget.get();
  if (budget == nullptr) return;
  const BudgetKind kind = source_.budget_kind;
  captured ? budget->Move(kind, BudgetKind::kGraphs, chunk->bytes)
           : budget->Move(BudgetKind::kGraphs, kind, chunk->bytes);
}

void* Arena::HandOut(Chunk* chunk, size_t bytes, ChunkOwner user, bool captured) {
  if (chunk->free) BinsOf(*chunk).Remove(chunk);
  const size_t rest = chunk->bytes - bytes;
  if (rest >= kAlignmentBytes && (rest > bytes / kSplitDivisor || rest > config_.max_dead_bytes_per_chunk)) {
    Chunk* const remainder = heap_.Split(chunk, bytes);
    BinsOf(*remainder).Insert(remainder);
  }
  SetCaptured(chunk, captured || (chunk->captured && chunk->owner == user));
  const StreamState& state = streams_[user];
  chunk->owner = user;
  chunk->generation = state.generation;
  chunk->untagged = user == kNobody;
  chunk->label = CurrentLabel();
  chunk->requested = bytes;
  chunk->cache = state.cache.get();
  heap_.PushLive(chunk);
  CountUse(bytes);
  stats_.CountLargest(bytes);
  ++stats_.allocations;
  return chunk->data;
}

Chunk* Arena::PutBack(Chunk* chunk) {
  chunk = MergeNeighbours(chunk);
  BinsOf(*chunk).Insert(chunk);
  return chunk;
}

void Arena::FreeForAll(Chunk* chunk) {
  chunk->owner = kNobody;
  chunk->stamp = 0;
  SetCaptured(chunk, false);
  PutBack(chunk);
}

// A free chunk changes hands; returns what it has become part of.
Chunk* Arena::HandOver(Chunk* chunk, ChunkOwner owner, uint64_t stamp) {
  BinsOf(*chunk).Remove(chunk);
  chunk->owner = owner;
  chunk->stamp = stamp;
  return PutBack(chunk);
}

// Whether `gone` may become part of `kept` and take its tags.
bool Arena::MayMerge(const Chunk& kept, const Chunk& gone) const {
  if (!gone.free) return false;
  if (gone.owner == kept.owner) return gone.captured == kept.captured;
  return kept.owner == kNobody && IsDone(gone);
}

// `chunk` is in no list; neither is the result.
Chunk* Arena::MergeNeighbours(Chunk* chunk) {
  // More than one: what lies behind a neighbour that was another stream's may be nobody's too.
  while (chunk->after != nullptr && MayMerge(*chunk, *chunk->after)) {
    Chunk* const after = chunk->after;
    BinsOf(*after).Remove(after);
    if (chunk->owner == kNobody) after->stamp = 0;
    heap_.MergeAfter(chunk);
  }
  while (chunk->before != nullptr && MayMerge(*chunk, *chunk->before)) {
    Chunk* const before = chunk->before;
    BinsOf(*before).Remove(before);
    before->owner = chunk->owner;
    before->captured = chunk->captured;
    before->stamp = chunk->owner == kNobody ? 0 : std::max(before->stamp, chunk->stamp);
    heap_.MergeAfter(before);
    chunk = before;
  }
  return chunk;
}

}  // namespace cudaep::memory
