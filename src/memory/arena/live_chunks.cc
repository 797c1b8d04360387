#include "memory/arena/live_chunks.h"

#include "memory/arena/chunk_heap.h"

namespace cudaep::memory {

LiveChunks::LiveChunks() {
  tables_.push_back(std::make_unique<Table>(kFirstBits));
  table_ = tables_.back().get();
}

// Who reads the new chunk sees that the address is no longer the old one.
void LiveChunks::Entry::Set(const void* new_data, Chunk* new_chunk) {
  data.store(nullptr, std::memory_order_relaxed);
  chunk.store(new_chunk, std::memory_order_release);
  data.store(new_data, std::memory_order_release);
}

void LiveChunks::Table::Add(const void* data, Chunk* chunk) {
  size_t at = Home(data);
  while (entries[at].chunk.load(std::memory_order_relaxed) != nullptr) at = (at + 1) & mask;
  entries[at].Set(data, chunk);
}

void LiveChunks::Insert(Chunk* chunk) {
  Table* table = table_.load(std::memory_order_relaxed);
  if (2 * ++count_ > table->mask) {
    tables_.push_back(std::make_unique<Table>(64 - table->shift + 1));
    for (size_t i = 0; i <= table->mask; ++i) {
      Chunk* const live = table->entries[i].chunk.load(std::memory_order_relaxed);
      if (live != nullptr) tables_.back()->Add(live->data, live);
    }
    table = tables_.back().get();
    table_.store(table, std::memory_order_release);
  }
  table->Add(chunk->data, chunk);
}

Chunk* LiveChunks::Find(const void* data) const {
  const Table& table = *table_.load(std::memory_order_acquire);
  size_t at = table.Home(data);
  for (size_t i = 0; i <= table.mask; ++i, at = (at + 1) & table.mask) {
    const Entry& entry = table.entries[at];
    const void* const found = entry.data.load(std::memory_order_acquire);
    if (found == nullptr) return nullptr;
    if (found != data) continue;
    Chunk* const chunk = entry.chunk.load(std::memory_order_acquire);
    return entry.data.load(std::memory_order_relaxed) == data ? chunk : nullptr;
  }
  return nullptr;
}

Chunk* LiveChunks::Remove(const void* data) {
  const Table& table = *table_.load(std::memory_order_relaxed);
  const auto data_at = [&](size_t at) { return table.entries[at].data.load(std::memory_order_relaxed); };
  size_t at = table.Home(data);
  while (data_at(at) != nullptr && data_at(at) != data) at = (at + 1) & table.mask;
  if (data_at(at) == nullptr) return nullptr;
  Chunk* const found = table.entries[at].chunk.load(std::memory_order_relaxed);
  // Entries behind the gap move up where their home lies before it, so that searches never stop short.
  for (size_t next = (at + 1) & table.mask; data_at(next) != nullptr; next = (next + 1) & table.mask) {
    const size_t home = table.Home(data_at(next));
    if (((next - home) & table.mask) < ((next - at) & table.mask)) continue;
    table.entries[at].Set(data_at(next), table.entries[next].chunk.load(std::memory_order_relaxed));
    at = next;
  }
  table.entries[at].Set(nullptr, nullptr);
  --count_;
  return found;
}

}  // namespace cudaep::memory
