// The CUDA graphs of one session, by id: found, captured once, replayed by all threads, released.
//
// Runs and replays of one id take turns, those of different ids overlap.
// Threads: all functions may be called from any thread; a Run begins and ends on the same one.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "runtime/device_graph.h"

namespace cudaep {

class GraphSet {
 public:
  // `most` graphs at a time.
  explicit GraphSet(int most) : most_(static_cast<size_t>(most)) {}
  GraphSet(const GraphSet&) = delete;
  GraphSet& operator=(const GraphSet&) = delete;

  bool IsCaptured(int id) const;
  // A Run that belongs to the graph `id`, which is nobody else's until EndRun. kFailedPrecondition where there are too
  // many.
  Result<DeviceGraph*> BeginRun(int id, const DeviceGraph::Setup& setup);
  Status EndRun(int id, DeviceGraph* graph, Status outcome, bool synchronize);
  // Instead of EndRun: the Run cannot go on.
  void GiveUpRun(int id, DeviceGraph* graph);
  // kFailedPrecondition for an id without a graph.
  Status Replay(int id);
  // Waits for a Run or replay under way. An id without a graph is no error; kFailedPrecondition inside its own Run.
  Status Release(int id);
  // All of them; nobody is in a Run or replays one.
  void Clear();

 private:
  std::shared_ptr<DeviceGraph> Find(int id) const;
  // The graph leaves the set, if it is in it.
  std::shared_ptr<DeviceGraph> Take(int id, const DeviceGraph* graph);

  const size_t most_;
  mutable std::mutex mutex_;
  std::map<int, std::shared_ptr<DeviceGraph>> graphs_;  // guarded by mutex_, which is locked inside a graph's
};

}  // namespace cudaep
