#include "ops/plan_cache.h"

#include <algorithm>
#include <iterator>

#include "core/condition.h"

namespace cudaep::ops {
namespace {

bool Equal(const PlanKey& a, std::span<const int64_t> b) {
  const std::span<const int64_t> words = a.words();
  return words.size() == b.size() && std::equal(words.begin(), words.end(), b.begin());
}

}  // namespace

PlanCache::PlanCache() {
  tables_.push_back(std::make_unique<const Table>(1));
  table_.store(tables_.back().get());
}

PlanCache::~PlanCache() {
  const Table& table = *table_.load();
  for (size_t i = 0; i < table.sets * kWays; ++i) delete table.cells[i].entry.load();
}

const PlanEntry* PlanCache::Find(PlanPin& pin, const PlanKey& key, uint64_t hash) const {
  Cell* const set = table_.load(std::memory_order_acquire)->SetOf(hash);
  for (size_t way = 0; way < kWays; ++way) {
    Cell& cell = set[way];
    if (cell.hash.load(std::memory_order_relaxed) != hash) continue;
    const PlanEntry* const entry = cell.entry.load(std::memory_order_acquire);
    if (entry == nullptr) continue;
    pin.Set(entry);
    // Whoever takes it out from here on sees the pin; before, it is no longer in the cell.
    if (cell.entry.load(std::memory_order_seq_cst) != entry || !Equal(key, entry->key)) continue;
    const uint32_t now = clock_.load(std::memory_order_relaxed);
    if (entry->last_use.load(std::memory_order_relaxed) != now) entry->last_use.store(now, std::memory_order_relaxed);
    return entry;
  }
  return nullptr;
}

const PlanEntry* PlanCache::BeginBuild(PlanPin& pin, const PlanKey& key, uint64_t hash) {
  slow_calls_.fetch_add(1, std::memory_order_relaxed);
  std::unique_lock lock(mutex_);
  const auto same = [&](const PlanKey* other) { return Equal(key, other->words()); };
  for (;;) {
    if (const PlanEntry* entry = Find(pin, key, hash)) return entry;
    if (std::none_of(building_.begin(), building_.end(), same)) break;
    WaitOnce(built_, lock);
  }
  building_.push_back(&key);
  return nullptr;
}

void PlanCache::EndBuild(const PlanKey& key) {
  std::lock_guard lock(mutex_);
  std::erase(building_, &key);
  built_.notify_all();
}

const PlanEntry* PlanCache::Replace(PlanPin& pin, const PlanKey& key, uint64_t hash, std::unique_ptr<const Plan> plan) {
  Entries gone;
  std::lock_guard lock(mutex_);
  Cell* const set = table_.load()->SetOf(hash);
  for (size_t way = 0; way < kWays; ++way) {
    const PlanEntry* const entry = set[way].entry.load();
    if (entry != nullptr && entry->hash == hash && Equal(key, entry->key)) Retire(set[way]);
  }
  return Insert(pin, key, hash, std::move(plan), gone);
}

const PlanEntry* PlanCache::Insert(PlanPin& pin, const PlanKey& key, uint64_t hash, std::unique_ptr<const Plan> plan,
                                   Entries& gone) {
  auto fresh = std::make_unique<PlanEntry>();
  fresh->hash = hash;
  fresh->key.assign(key.words().begin(), key.words().end());
  fresh->plan = std::move(plan);
  fresh->last_use = clock_.fetch_add(1) + 1;
  pin.Set(fresh.get());
  Cell* const cell = FreeCell(hash);
  cell->hash.store(hash, std::memory_order_relaxed);
  const PlanEntry* const entry = fresh.release();
  cell->entry.store(entry, std::memory_order_seq_cst);
  if (!retired_.empty()) {
    const std::vector<const void*> pinned = PlanPins::All();
    const auto free = std::partition(retired_.begin(), retired_.end(), [&](const auto& entry) {
      return std::binary_search(pinned.begin(), pinned.end(), static_cast<const void*>(entry.get()));
    });
    std::move(free, retired_.end(), std::back_inserter(gone));
    retired_.erase(free, retired_.end());
  }
  return entry;
}

// An empty cell of the key's set; the plan that was not used for longest makes room when there is none.
PlanCache::Cell* PlanCache::FreeCell(uint64_t hash) {
  for (;;) {
    const Table& table = *table_.load();
    Cell* const set = table.SetOf(hash);
    Cell* oldest = nullptr;
    for (size_t way = 0; way < kWays; ++way) {
      const PlanEntry* const entry = set[way].entry.load();
      if (entry == nullptr) return &set[way];
      if (oldest == nullptr || static_cast<int32_t>(entry->last_use - oldest->entry.load()->last_use) < 0) {
        oldest = &set[way];
      }
    }
    if (table.sets * kWays == kMaxPlans) {
      Retire(*oldest);
      return oldest;
    }
    Grow();
  }
}

void PlanCache::Grow() {
  const Table& old = *table_.load();
  auto wide = std::make_unique<const Table>(kMaxPlans / kWays);
  for (size_t i = 0; i < old.sets * kWays; ++i) {
    const PlanEntry* const entry = old.cells[i].entry.load();
    if (entry == nullptr) continue;
    Cell* cell = wide->SetOf(entry->hash);
    while (cell->entry.load() != nullptr) ++cell;  // as many ways as the whole old table has
    cell->hash.store(entry->hash);
    cell->entry.store(entry);
  }
  table_.store(wide.get(), std::memory_order_seq_cst);
  // Nobody may find in the former table what is taken out of this one later.
  for (size_t i = 0; i < old.sets * kWays; ++i) old.cells[i].entry.store(nullptr, std::memory_order_seq_cst);
  tables_.push_back(std::move(wide));
}

void PlanCache::Retire(Cell& cell) {
  retired_.emplace_back(cell.entry.load());
  cell.entry.store(nullptr, std::memory_order_seq_cst);
}

size_t PlanCache::size() const {
  std::lock_guard lock(mutex_);
  const Table& table = *table_.load();
  size_t count = 0;
  for (size_t i = 0; i < table.sets * kWays; ++i) count += table.cells[i].entry.load() != nullptr ? 1 : 0;
  return count;
}

}  // namespace cudaep::ops
