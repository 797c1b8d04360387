// What the arena knows of streams, and their caches.
#include <algorithm>

#include "memory/arena/arena.h"

namespace cudaep::memory {
namespace {

// Chunks that become nobody's when their stream is idle.
constexpr int kMostAtIdle = 256;

}  // namespace

bool Arena::IsOf(ChunkOwner owner, device::Stream stream) const {
  return streams_[owner].used && streams_[owner].stream == stream;
}

ChunkOwner Arena::FindOwner(device::Stream stream) const {
  ChunkOwner owner = static_cast<ChunkOwner>(streams_.size()) - 1;
  while (owner != kNobody && !IsOf(owner, stream)) --owner;
  return owner;
}

ChunkOwner Arena::OwnerOf(device::Stream stream) {
  ChunkOwner vacant = 0;
  for (ChunkOwner i = 1; i < streams_.size(); ++i) {
    if (!streams_[i].used) {
      vacant = i;
    } else if (streams_[i].stream == stream) {
      return i;
    }
  }
  if (vacant == 0) {
    vacant = static_cast<ChunkOwner>(streams_.size());
    streams_.emplace_back();
  }
  StreamState& state = streams_[vacant];
  state.stream = stream;
  state.used = true;
  progress_.Add(stream);
  if (state.cache == nullptr) state.cache = std::make_unique<StreamCache>(vacant);
  state.cache->Open(stream, state.generation);
  caches_.Add(stream, state.cache.get());
  return vacant;
}

void Arena::AddStream(device::Stream stream) {
  std::lock_guard lock(mutex_);
  OwnerOf(stream);
}

void Arena::ExpectCaptures(device::Stream stream) {
  std::lock_guard lock(mutex_);
  StreamState& state = streams_[OwnerOf(stream)];
  state.may_capture = true;
  caches_.Remove(stream);
  PutBackList(state.cache->Close());
}

Status Arena::BelongToGraph(device::Stream stream) {
  ExpectCaptures(stream);
  std::lock_guard lock(mutex_);
  streams_[OwnerOf(stream)].is_graphs = true;
  return Status::Ok();
}

StreamMark Arena::Mark(device::Stream stream) {
  std::lock_guard lock(mutex_);
  StreamMark mark = progress_.Now(stream);
  const ChunkOwner owner = FindOwner(stream);
  if (owner != kNobody) mark.frees = streams_[owner].cache->freed();
  return mark;
}

void Arena::Reached(const StreamMark& mark) {
  std::lock_guard lock(mutex_);
  if (!progress_.Reached(mark)) return;
  FreePast();
  const ChunkOwner owner = FindOwner(mark.stream);
  if (owner == kNobody) return;
  StreamState& state = streams_[owner];
  state.done = std::max(state.done, mark.frees);
  while (!state.marks.empty() && state.marks.front().stamp <= mark.frees) state.marks.pop_front();
  state.unmarked = 0;
  PutBackList(state.cache->Idle());
  // Merged with their neighbours at once, so that the next Run of any stream finds large chunks; the sweep takes the
  // rest of a very long list, and what was freed after the mark.
  for (int i = 0; i < kMostAtIdle; ++i) {
    Chunk* const chunk = state.bins.Any();
    if (chunk == nullptr || !IsDone(*chunk)) return;
    state.bins.Remove(chunk);
    FreeForAll(chunk);
  }
}

void Arena::ReleaseStream(device::Stream stream) {
  std::lock_guard lock(mutex_);
  progress_.Release(stream);
  FreePast();
  const ChunkOwner owner = FindOwner(stream);
  if (owner == kNobody) return;
  StreamState& state = streams_[owner];
  caches_.Remove(stream);
  state.done = state.cache->freed();
  PutBackList(state.cache->Close());
  for (ChunkBins* bins : {&state.bins, &state.captured}) {
    while (Chunk* chunk = bins->Any()) {
      bins->Remove(chunk);
      FreeForAll(chunk);
    }
  }
  // Live chunks outlast the stream (a session's outputs): their generation tells.
  StreamState vacant{.generation = state.generation + 1};
  vacant.cache = std::move(state.cache);
  state = std::move(vacant);
  for (StreamState& other : streams_) {
    if (owner < other.waited.size()) other.waited[owner] = 0;
  }
}

// ---- Page-locked memory -----------------------------------------------------------------------------------------

bool Arena::Owns(const void* pointer) const {
  if (!MayOwn(pointer)) return false;
  std::lock_guard lock(mutex_);
  return source_.kind == MemoryKind::kPinnedHost && heap_.FindLiveAround(pointer) != nullptr;
}

void Arena::UsedOn(const void* pointer, device::Stream stream) {
  if (!MayOwn(pointer)) return;
  std::lock_guard lock(mutex_);
  const Chunk* const chunk = source_.kind == MemoryKind::kPinnedHost ? heap_.FindLiveAround(pointer) : nullptr;
  if (chunk == nullptr) return;
  StreamProgress::Point point = progress_.MarkLater(stream);
  const ChunkOwner owner = FindOwner(stream);
  // A graph copies from or to these addresses at each replay: nobody else gets them while the stream lives.
  if (owner != kNobody && streams_[owner].may_capture && IsCapturing(stream)) point.sequence = UINT64_MAX;
  std::vector<StreamProgress::Point>& uses = uses_[chunk];
  const auto same = std::find_if(uses.begin(), uses.end(), [&](const auto& use) { return use.stream == point.stream; });
  if (same == uses.end()) {
    uses.push_back(point);
  } else {
    same->sequence = std::max(same->sequence, point.sequence);
  }
}

// ---- Chunks -----------------------------------------------------------------------------------------------------

bool Arena::IsDone(const Chunk& chunk) const {
  return chunk.owner == kNobody || (!chunk.captured && chunk.stamp <= streams_[chunk.owner].done);
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

// Before memory is looked for elsewhere.
void Arena::EmptyCaches() {
  for (const StreamState& state : streams_) {
    if (state.cache != nullptr) PutBackList(state.cache->PopAll());
  }
}

}  // namespace cudaep::memory
