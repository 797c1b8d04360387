// What is known of the CUDA graphs of the process, for its statistics: how many live, what they cost, how often they
// were launched.
//
// Each graph counts its own launches, on the thread that has it, so a launch writes no memory that others write. Who
// asks adds up the graphs that live and those that have ended.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>

namespace cudaep {

enum class GraphKind : uint8_t {
  kRuns,   // of the host's Runs (runtime/device_graph.h)
  kCalls,  // of an operator's calls (runtime/operator_graphs.h)
};

struct GraphTotals {
  uint64_t graphs = 0, bytes = 0;       // that live; bytes as charged to the budget
  uint64_t captured = 0, launches = 0;  // since the process began
};

class GraphTally {
 public:
  GraphTally(GraphKind kind, int ordinal, size_t bytes);
  ~GraphTally();
  GraphTally(const GraphTally&) = delete;
  GraphTally& operator=(const GraphTally&) = delete;

  // By one thread at a time.
  void CountLaunch() { launches_.store(launches() + 1, std::memory_order_relaxed); }

  // By device ordinal; without an entry there never was a graph. By any thread.
  static std::map<int, GraphTotals> Totals(GraphKind kind);

 private:
  uint64_t launches() const { return launches_.load(std::memory_order_relaxed); }

  const GraphKind kind_;
  const int ordinal_;
  const size_t bytes_;
  std::atomic<uint64_t> launches_{0};
};

}  // namespace cudaep
