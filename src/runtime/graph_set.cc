#include "runtime/graph_set.h"

#include <utility>

namespace cudaep {

std::shared_ptr<DeviceGraph> GraphSet::Find(int id) const {
  std::lock_guard lock(mutex_);
  const auto found = graphs_.find(id);
  return found == graphs_.end() ? nullptr : found->second;
}

std::shared_ptr<DeviceGraph> GraphSet::Take(int id, const DeviceGraph* graph) {
  std::lock_guard lock(mutex_);
  const auto found = graphs_.find(id);
  if (found == graphs_.end() || found->second.get() != graph) return nullptr;
  std::shared_ptr<DeviceGraph> taken = std::move(found->second);
  graphs_.erase(found);
  return taken;
}

bool GraphSet::IsCaptured(int id) const {
  std::lock_guard lock(mutex_);
  const auto found = graphs_.find(id);
  return found != graphs_.end() && found->second->captured();
}

Result<DeviceGraph*> GraphSet::BeginRun(int id, const DeviceGraph::Setup& setup) {
  for (;;) {
    std::shared_ptr<DeviceGraph> graph;
    {
      std::lock_guard lock(mutex_);
      const auto found = graphs_.find(id);
      if (found != graphs_.end()) {
        graph = found->second;
      } else if (graphs_.size() >= most_) {
        return FailedPrecondition("gpu_graph_id=", id, " would be one graph more than the ", most_,
                                  " that provider option cuda_graph_max_count allows a session; release one, or set "
                                  "the option");
      } else {
        graph = graphs_.emplace(id, std::make_shared<DeviceGraph>()).first->second;
      }
    }
    if (graph->IsRunHere()) {
      return FailedPrecondition("a Run with gpu_graph_id=", id, " was begun inside another one of the same session");
    }
    std::unique_lock turn(graph->mutex());
    if (Find(id) != graph) continue;  // released, or given up by the Run before
    Status begun = graph->Begin(setup);
    if (!begun.ok()) {
      if (!graph->captured()) Take(id, graph.get());
      return begun;
    }
    turn.release();  // until EndRun
    return graph.get();
  }
}

Status GraphSet::EndRun(int id, DeviceGraph* graph, Status outcome, bool synchronize) {
  std::shared_ptr<DeviceGraph> gone;  // ends after its mutex is free
  std::unique_lock turn(graph->mutex(), std::adopt_lock);
  Status status = graph->End(std::move(outcome), synchronize);
  if (!status.ok() && !graph->captured()) gone = Take(id, graph);
  return status;
}

void GraphSet::GiveUpRun(int id, DeviceGraph* graph) {
  std::shared_ptr<DeviceGraph> gone;  // ends after its mutex is free
  std::unique_lock turn(graph->mutex(), std::adopt_lock);
  graph->GiveUp();
  if (!graph->captured()) gone = Take(id, graph);
}

Status GraphSet::Replay(int id) {
  const std::shared_ptr<DeviceGraph> graph = Find(id);
  if (graph == nullptr || !graph->captured()) {
    return FailedPrecondition("there is no CUDA graph for gpu_graph_id=", id, "; it was released");
  }
  if (graph->IsRunHere()) return FailedPrecondition("gpu_graph_id=", id, " is replayed inside its own Run");
  std::lock_guard turn(graph->mutex());
  if (Find(id) != graph) {
    return FailedPrecondition("there is no CUDA graph for gpu_graph_id=", id, "; it was released meanwhile");
  }
  return graph->Replay();
}

Status GraphSet::Release(int id) {
  const std::shared_ptr<DeviceGraph> graph = Find(id);
  if (graph == nullptr) return Status::Ok();
  if (graph->IsRunHere()) return FailedPrecondition("gpu_graph_id=", id, " is released inside its own Run");
  std::lock_guard turn(graph->mutex());
  Take(id, graph.get());
  return Status::Ok();
}

void GraphSet::Clear() {
  std::map<int, std::shared_ptr<DeviceGraph>> gone;  // ends after the mutex is free
  std::lock_guard lock(mutex_);
  gone.swap(graphs_);
}

}  // namespace cudaep
