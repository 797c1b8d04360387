// How the arena makes one large piece of scattered free memory: whole steps of it, which the driver maps elsewhere.
#include <algorithm>

#include "core/checked_math.h"
#include "memory/arena/arena.h"

namespace cudaep::memory {
namespace {

// Holes are gathered once addresses take this many times the memory behind them.
constexpr size_t kMostSpread = 2;

}  // namespace

// What a chunk of `bytes` lacks behind the free memory that `before` may be.
Arena::Place Arena::PlaceAt(Chunk* at, Chunk* before, size_t bytes) {
  const bool usable = before != nullptr && before->free && before->owner == kNobody;
  return {at, usable ? before : nullptr, AlignUp(bytes - std::min(bytes, usable ? before->bytes : 0), kStepBytes)};
}

Arena::Place Arena::PlaceAtEnd(size_t bytes) { return PlaceAt(nullptr, heap_.LastOf(0), bytes); }

// Where the least memory has to be brought for a chunk of `bytes`.
Arena::Place Arena::PlaceFor(size_t bytes) {
  Place best = PlaceAtEnd(bytes);
  for (Chunk* chunk = heap_.regions()[0].first; chunk != nullptr; chunk = chunk->after) {
    if (!chunk->hole) continue;
    const Place place = PlaceAt(chunk, chunk->before, bytes);
    if (place.missing <= chunk->bytes && place.missing <= best.missing) best = place;
  }
  return best;
}

// Moves steps out of free chunks, the largest first, to the place; returns how many bytes arrived: into a hole all that
// is missing or nothing, to the end what there is.
size_t Arena::BringMemory(const Place& place) {
  const char* const base = heap_.regions()[0].data;
  const size_t to = place.at != nullptr ? static_cast<size_t>(place.at->data - base) : heap_.regions()[0].bytes;
  struct Donor {
    Chunk* chunk;
    size_t begin, first, end;  // of the chunk, and of its whole steps
  };
  std::vector<Donor> donors;
  size_t available = 0;
  for (Chunk* chunk = heap_.regions()[0].first; chunk != nullptr; chunk = chunk->after) {
    if (!chunk->free || chunk->owner != kNobody || chunk == place.before || chunk->bytes < kStepBytes) continue;
    const auto begin = static_cast<size_t>(chunk->data - base);
    const size_t first = AlignUp(begin, kStepBytes), end = (begin + chunk->bytes) / kStepBytes * kStepBytes;
    if (first >= end) continue;
    donors.push_back({chunk, begin, first, end});
    available += end - first;
  }
  if (available < place.missing && place.at != nullptr) return 0;
  size_t brought = 0;
  std::sort(donors.begin(), donors.end(),
            [](const Donor& a, const Donor& b) { return a.chunk->bytes > b.chunk->bytes; });
  for (const auto& [donor, begin, first, end] : donors) {
    if (brought == place.missing) break;
    const size_t bytes = std::min(end - first, place.missing - brought);
    if (!device::GrowableMove(growable_.get(), first, to + brought, bytes).ok()) break;
    brought += bytes;
    BinsOf(*donor).Remove(donor);
    Chunk* hole = donor;
    if (first > begin) {
      hole = heap_.Split(donor, first - begin);
      BinsOf(*donor).Insert(donor);
    }
    if (hole->bytes > bytes) {
      Chunk* const rest = heap_.Split(hole, bytes);
      BinsOf(*rest).Insert(rest);
    }
    hole->hole = true;
    hole->free = false;
    if (hole->after != nullptr && hole->after->hole) heap_.MergeAfter(hole);
    if (hole->before != nullptr && hole->before->hole) heap_.MergeAfter(hole->before);
  }
  return brought;
}

// Free memory behind a hole moves to the hole's beginning, so that holes come together as far as live chunks let them:
// otherwise ever more of them would be too small for what is needed, and the region's end would move on and on.
void Arena::GatherHoles() {
  const char* const base = heap_.regions()[0].data;
  for (Chunk* hole = heap_.regions()[0].first; hole != nullptr; hole = hole->after) {
    if (!hole->hole) continue;
    while (hole->after != nullptr && hole->after->hole) heap_.MergeAfter(hole);
    Chunk* const next = hole->after;
    if (next == nullptr || !next->free || next->owner != kNobody || next->bytes < kStepBytes) continue;
    const size_t whole = next->bytes / kStepBytes * kStepBytes, moved = std::min(whole, hole->bytes);
    const auto to = static_cast<size_t>(hole->data - base), from = static_cast<size_t>(next->data - base);
    // The last of its steps, where there are more of them than the hole takes.
    if (!device::GrowableMove(growable_.get(), from + whole - moved, to, moved).ok()) break;
    BinsOf(*next).Remove(next);
    if (next->bytes > whole) {
      Chunk* const rest = heap_.Split(next, whole);
      BinsOf(*rest).Insert(rest);
    }
    heap_.MoveBoundary(hole, whole);
    hole->hole = false;
    next->hole = true;
    hole->owner = kNobody;
    hole->stamp = 0;
    PutBack(hole);
    hole = next->before;  // the loop goes on with the hole where it is now
  }
  while (heap_.LastOf(0)->hole) heap_.DropLast(0);
}

// A chunk of at least `bytes`, made of memory that is nobody's. Null when there is not enough of it: what there is lies
// at the region's end then, which has to grow by the rest only.
Chunk* Arena::Compact(size_t bytes) {
  if (heap_.regions().empty()) return nullptr;
  Place place = PlaceFor(bytes);
  if (place.at == nullptr && heap_.regions()[0].bytes > kMostSpread * region_bytes_) {
    GatherHoles();
    if (Chunk* chunk = FindUsable(bytes, kNobody)) return chunk;
    place = PlaceFor(bytes);
  }
  if (place.missing == 0) return place.before;  // a search of its bin ended before it
  size_t brought = BringMemory(place);
  if (brought == 0 && place.at != nullptr) {
    place = PlaceAtEnd(bytes);
    brought = BringMemory(place);
  }
  if (brought == 0) return nullptr;
  ++stats_.compactions;
  Chunk* made = nullptr;
  if (place.at == nullptr) {
    made = heap_.ExtendRegion(0, brought);
  } else {
    made = place.at;
    if (made->bytes > brought) {
      Chunk* const rest = heap_.Split(made, brought);
      rest->hole = true;
    }
    made->hole = false;
  }
  made->owner = kNobody;
  made->stamp = 0;
  made = MergeNeighbours(made);
  while (heap_.LastOf(0)->hole) heap_.DropLast(0);
  if (made->bytes >= bytes) return made;
  BinsOf(*made).Insert(made);
  return nullptr;
}

}  // namespace cudaep::memory
