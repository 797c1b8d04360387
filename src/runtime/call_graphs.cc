#include "runtime/call_graphs.h"

#include <algorithm>
#include <utility>

namespace cudaep {
namespace {

uint64_t Hash(const GraphCall& call) {
  constexpr uint64_t kPrime = 0x100000001b3;
  uint64_t hash = (0xcbf29ce484222325 ^ call.plan) * kPrime;
  for (const void* address : call.addresses) {
    hash = (hash ^ reinterpret_cast<uintptr_t>(address)) * kPrime;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

bool CallGraphs::Entry::IsOf(const GraphCall& call) const {
  return plan == call.plan &&
         std::equal(addresses.begin(), addresses.end(), call.addresses.begin(), call.addresses.end());
}

Result<bool> CallGraphs::Launch(const GraphCall& call, device::Stream stream) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) { return entry->IsOf(call); });
  if (found == entries_.end()) return false;
  std::rotate(entries_.begin(), found, found + 1);
  Entry& entry = *entries_.front();
  if (Status launched = entry.graph.Launch(stream); !launched.ok()) [[unlikely]] {
    entries_.erase(entries_.begin());
    return launched;
  }
  if (entry.launches < kWorthwhile && ++entry.launches == kWorthwhile) last_pause_ = 0;
  return true;
}

bool CallGraphs::IsWorthCapturing(const GraphCall& call) {
  const uint64_t hash = Hash(call);
  if (std::find(met_.begin(), met_.end(), hash) == met_.end()) {
    met_[std::exchange(next_met_, (next_met_ + 1) % met_.size())] = hash;
    if (pause_ != 0) --pause_;
    return false;
  }
  if (pause_ == 0) return true;
  --pause_;
  return false;
}

void CallGraphs::Add(const GraphCall& call, LaunchableGraph graph, std::shared_ptr<const void> kept) {
  auto entry = std::make_unique<Entry>();
  entry->plan = call.plan;
  entry->addresses.assign(call.addresses.begin(), call.addresses.end());
  entry->graph = std::move(graph);
  entry->kept = std::move(kept);
  MakeRoom(call.plan);
  entries_.insert(entries_.begin(), std::move(entry));
}

// For one more of the plan's: the one of its graphs goes that was not used for longest, or else that of all.
void CallGraphs::MakeRoom(uint64_t plan) {
  size_t of_plan = 0, last_of_plan = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i]->plan != plan) continue;
    ++of_plan;
    last_of_plan = i;
  }
  if (of_plan >= kMostOfPlan) {
    Evict(last_of_plan);
  } else if (entries_.size() >= kMost) {
    Evict(entries_.size() - 1);
  }
}

void CallGraphs::Evict(size_t index) {
  if (entries_[index]->launches < kWorthwhile) {
    last_pause_ = std::clamp(2 * last_pause_, kFirstPause, kLongestPause);
    pause_ = last_pause_;
  }
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(index));
}

void CallGraphs::Drop() {
  entries_.clear();
  is_dropped_.store(true, std::memory_order_release);
}

}  // namespace cudaep
