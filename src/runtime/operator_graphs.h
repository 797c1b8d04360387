// An operator that replays CUDA graphs of its own: a call that comes again is captured, and launched as a graph from
// then on.
//
//   OperatorGraphs graphs(libraries);     // a member of the operator
//   graphs.Run(stream, call, kept, [&](StreamContext& on) -> Status { ... queue the call on `on` ... });
//
// Results are those of plain launches: a graph is launched for the same plan and addresses only (call_graphs.h), into
// the stream of the call, whichever that is. `queue` must do the same work whenever it is called with them, allocate
// nothing and wait for nothing. What stands in the way of a graph (no memory, a refused capture) is logged once, and
// the call is queued plainly, as all calls are while the stream is captured by its owner or belongs to a graph.
// A call with a graph costs the launch and comparing the addresses: no lock, no allocation.
// Threads: Run may be called concurrently on different streams. Graphs end with their stream or with this, whichever is
// first.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/call_graphs.h"
#include "runtime/stream_context.h"

namespace cudaep {

class OperatorGraphs {
 public:
  // `libraries`: whose handles the work uses.
  explicit OperatorGraphs(LibrarySet libraries);
  ~OperatorGraphs();
  OperatorGraphs(const OperatorGraphs&) = delete;
  OperatorGraphs& operator=(const OperatorGraphs&) = delete;

  // A number for GraphCall::plan.
  static uint64_t NewPlan();

  // `kept` is what the graph's nodes refer to.
  template <class Queue>
  Status Run(StreamContext& stream, const GraphCall& call, const std::shared_ptr<const void>& kept, Queue&& queue) {
    if (!stream.workspace().IsPlain()) [[unlikely]]
      return queue(stream);
    CallGraphs* const graphs = stream.graphs().Find(id_);
    if (graphs != nullptr) [[likely]] {
      Result<bool> launched = graphs->Launch(call, stream.stream());
      if (!launched.ok()) [[unlikely]]
        Failed(*graphs, launched.status());
      if (launched.ok() && launched.value()) [[likely]]
        return Status::Ok();
    }
    if (LaunchNew(stream, graphs, call, kept, std::ref(queue))) return Status::Ok();
    return queue(stream);
  }

 private:
  using QueueFunction = std::function<Status(StreamContext&)>;

  // Whether the call was worth a graph, which was made and launched.
  bool LaunchNew(StreamContext& stream, CallGraphs* graphs, const GraphCall& call,
                 const std::shared_ptr<const void>& kept, const QueueFunction& queue);
  Status Capture(StreamContext& stream, LaunchableGraph* graph, const QueueFunction& queue) const;
  CallGraphs* AddTo(StreamContext& stream);
  void Failed(CallGraphs& graphs, const Status& why);

  const uint64_t id_;
  const LibrarySet libraries_;
  std::atomic<bool> has_warned_{false};
  std::mutex mutex_;
  std::vector<std::weak_ptr<CallGraphs>> streams_;  // guarded by mutex_
};

}  // namespace cudaep
