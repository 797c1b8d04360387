#include "runtime/graph_tally.h"

#include <array>
#include <mutex>
#include <set>

namespace cudaep {
namespace {

struct Tallies {
  std::mutex mutex;
  std::set<const GraphTally*> live;                     // guarded by mutex
  std::array<std::map<int, GraphTotals>, 2> by_kind{};  // by ordinal; launches of graphs that ended; guarded by mutex
};

// Never destroyed: graphs may end in static destructors.
Tallies& All() {
  static auto* const all = new Tallies;
  return *all;
}

}  // namespace

GraphTally::GraphTally(GraphKind kind, int ordinal, size_t bytes) : kind_(kind), ordinal_(ordinal), bytes_(bytes) {
  Tallies& all = All();
  std::lock_guard lock(all.mutex);
  GraphTotals& totals = all.by_kind[static_cast<size_t>(kind_)][ordinal_];
  all.live.insert(this);
  ++totals.graphs;
  ++totals.captured;
  totals.bytes += bytes_;
}

GraphTally::~GraphTally() {
  Tallies& all = All();
  std::lock_guard lock(all.mutex);
  GraphTotals& totals = all.by_kind[static_cast<size_t>(kind_)][ordinal_];
  all.live.erase(this);
  --totals.graphs;
  totals.bytes -= bytes_;
  totals.launches += launches();
}

std::map<int, GraphTotals> GraphTally::Totals(GraphKind kind) {
  Tallies& all = All();
  std::lock_guard lock(all.mutex);
  std::map<int, GraphTotals> totals = all.by_kind[static_cast<size_t>(kind)];
  for (const GraphTally* tally : all.live) {
    if (tally->kind_ == kind) totals[tally->ordinal_].launches += tally->launches();
  }
  return totals;
}

}  // namespace cudaep
