#include "memory/arena/live_chunks.h"

#include "memory/arena/chunk_heap.h"

namespace cudaep::memory {

void LiveChunks::Part::Add(Chunk* chunk) {
  entries[Search(chunk->data)] = chunk;
  ++count;
}

void LiveChunks::Part::Grow() {
  std::vector<Chunk*> old(entries.size() * 2);
  old.swap(entries);
  --shift;
  count = 0;
  for (Chunk* chunk : old) {
    if (chunk != nullptr) Add(chunk);
  }
}

size_t LiveChunks::Part::Search(const void* data) const {
  const size_t mask = entries.size() - 1;
  size_t at = Home(data);
  while (entries[at] != nullptr && entries[at]->data != data) at = (at + 1) & mask;
  return at;
}

void LiveChunks::Insert(Chunk* chunk) {
  Part& part = PartOf(chunk->data);
  std::lock_guard lock(part.lock);
  if (2 * (part.count + 1) > part.entries.size()) part.Grow();
  part.Add(chunk);
}

Chunk* LiveChunks::Find(const void* data) const {
  const Part& part = PartOf(data);
  std::lock_guard lock(part.lock);
  return part.entries[part.Search(data)];
}

Chunk* LiveChunks::Remove(const void* data) {
  Part& part = PartOf(data);
  std::lock_guard lock(part.lock);
  size_t at = part.Search(data);
  Chunk* const found = part.entries[at];
  if (found == nullptr) return nullptr;
  // Entries behind the gap move up where their home lies before it, so that searches never stop short.
  const size_t mask = part.entries.size() - 1;
  for (size_t next = (at + 1) & mask; part.entries[next] != nullptr; next = (next + 1) & mask) {
    const size_t home = part.Home(part.entries[next]->data);
    if (((next - home) & mask) < ((next - at) & mask)) continue;
    part.entries[at] = part.entries[next];
    at = next;
  }
  part.entries[at] = nullptr;
  --part.count;
  return found;
}

size_t LiveChunks::count() const {
  size_t count = 0;
  for (const Part& part : parts_) {
    std::lock_guard lock(part.lock);
    count += part.count;
  }
  return count;
}

}  // namespace cudaep::memory
