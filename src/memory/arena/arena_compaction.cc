// How the arena makes one large piece of scattered free memory: whole steps of it, which the driver maps elsewhere.
#include <algorithm>

#include "core/checked_math.h"
#include "memory/arena/arena.h"

namespace cudaep::memory {
namespace {

constexpr size_t kStep = device::kGrowableStepBytes;

}  // namespace

// Where the least memory has to be brought for a chunk of `bytes`.
Arena::Place Arena::PlaceFor(size_t bytes) {
  const auto usable = [](Chunk* chunk) { return chunk != nullptr && chunk->free && chunk->owner == kNobody; };
  const auto missing = [&](const Chunk* before) {
    return AlignUp(bytes - std::min(bytes, before != nullptr ? before->bytes : 0), kStep);
  };
  Chunk* const last = heap_.LastOf(0);
  Place best{nullptr, usable(last) ? last : nullptr, 0};
  best.missing = missing(best.before);
  for (Chunk* chunk = heap_.regions()[0].first; chunk != nullptr; chunk = chunk->after) {
    if (!chunk->hole) continue;
    Place place{chunk, usable(chunk->before) ? chunk->before : nullptr, 0};
    place.missing = missing(place.before);
    if (place.missing <= chunk->bytes && place.missing <= best.missing) best = place;
  }
  return best;
}

// Moves steps out of free chunks, the largest first, to the place; returns how many bytes arrived.
size_t Arena::BringMemory(const Place& place) {
  const char* const base = heap_.regions()[0].data;
  const size_t to = place.at != nullptr ? static_cast<size_t>(place.at->data - base) : heap_.regions()[0].bytes;
  std::vector<Chunk*> donors;
  size_t available = 0;
  for (Chunk* chunk = heap_.regions()[0].first; chunk != nullptr; chunk = chunk->after) {
    if (!chunk->free || chunk->owner != kNobody || chunk == place.before || chunk->bytes < kStep) continue;
    const auto begin = static_cast<size_t>(chunk->data - base);
    const size_t first = AlignUp(begin, kStep), end = (begin + chunk->bytes) / kStep * kStep;
    if (first >= end) continue;
    donors.push_back(chunk);
    available += end - first;
  }
  if (available < place.missing) return 0;
  size_t brought = 0;
  std::sort(donors.begin(), donors.end(), [](const Chunk* a, const Chunk* b) { return a->bytes > b->bytes; });
  for (Chunk* donor : donors) {
    if (brought == place.missing) break;
    const auto begin = static_cast<size_t>(donor->data - base);
    const size_t first = AlignUp(begin, kStep), end = (begin + donor->bytes) / kStep * kStep;
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

// A chunk of at least `bytes` in no list, made of memory that is nobody's; null when there is not enough of it.
Chunk* Arena::Compact(size_t bytes) {
  if (heap_.regions().empty()) return nullptr;
  const Place place = PlaceFor(bytes);
  const size_t brought = BringMemory(place);
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
  BinsOf(*made).Insert(made);  // the driver refused a part
  return nullptr;
}

}  // namespace cudaep::memory
