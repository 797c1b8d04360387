// CUDA graphs through the host's hooks: from a Run and its gpu_graph_id to the session's graphs.
//
// The host says when a Run begins and ends, asks whether an id has a graph, and replays it without a Run. So a Run
// that warms a graph up or is captured is known by the thread it is on, and this class puts all that the Run asks for
// (streams for nodes, memory) on the graph's own stream (runtime/device_graph.h). What a replay would not repeat is
// refused: copies of inputs and outputs, plans that cannot be captured, streams given with the Run, nodes on other
// threads.
// A Run is whole when every kernel of the session has run once on its thread; what is not whole makes no graph.
// Threads: the functions about a Run are called on its thread; the rest by any.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "abi/host.h"
#include "ops/planned_operator.h"
#include "runtime/graph_set.h"
#include "runtime/settings.h"

namespace cudaep::abi {

class GraphRuns {
 public:
  // `only_stream` as in DeviceGraph::Setup. kNotSupported for a session whose memory cannot belong to a graph.
  static Result<std::unique_ptr<GraphRuns>> Create(const Settings& settings,
                                                   std::shared_ptr<memory::DeviceMemory> memory,
                                                   device::Stream only_stream);

  // A Run of the session; with gpu_graph_id=-1 an ordinary one.
  Status Begin(const OrtRunOptions* options, LibrarySet libraries);
  // `synchronize`: as the host says. Waits for the device if so.
  Status End(bool synchronize);

  bool IsCaptured(int id) const { return graphs_.IsCaptured(id); }
  Status Replay(int id) { return graphs_.Replay(id); }
  Status Release(int id) { return graphs_.Release(id); }

  // Whether the calling thread is in a Run of the session that belongs to a graph, and before its first node.
  bool IsRunHere() const;
  bool IsFirstNode() const;
  // The context that the Run's nodes are queued with. `is_given`: the host has them on a stream of the application's,
  // which is refused.
  Result<StreamContext*> Enter(bool is_given);
  // A node is about to be queued with this plan, and has been. Both do nothing in an ordinary Run.
  Status Take(const ops::PlannedCall& call);
  void NodeDone(const ModelNode& node);
  // Kernels of the session that live.
  void KernelMade() { kernels_.fetch_add(1, std::memory_order_relaxed); }
  // Graphs go with the first: what they baked in (plans, packed weights) ends with the kernels.
  void KernelGone() {
    kernels_.fetch_sub(1, std::memory_order_relaxed);
    graphs_.Clear();
  }

  // The Run that the thread is in cannot go on: the host may not say that it ends. Its graph is given up.
  void Abandon();
  // Memory for it was refused: whether the host says that it ends is open. The thread's next Run gives the graph up.
  static void MayBeAbandoned();

  // Whether any session of the process has graphs: what follows is asked of them alone.
  static bool AnyLive() { return live_.load(std::memory_order_relaxed) != 0; }
  // Of whatever session's Run the calling thread is in: the stream that memory of `memory` is for, null in an ordinary
  // Run. kFailedPrecondition for memory that the graph's session does not share.
  static Result<device::Stream> StreamForMemory(const memory::DeviceMemory* memory);
  // The host copies an input to the device, or an output from it; OK in an ordinary Run.
  static Status CheckCopy(bool feeds);

  ~GraphRuns();
  GraphRuns(const GraphRuns&) = delete;
  GraphRuns& operator=(const GraphRuns&) = delete;

 private:
  GraphRuns(const Settings& settings, DeviceGraph::Setup setup)
      : setup_(std::move(setup)), graphs_(settings.max_graphs) {
    live_.fetch_add(1, std::memory_order_relaxed);
  }

  inline static std::atomic<int> live_{0};

  const DeviceGraph::Setup setup_;
  GraphSet graphs_;
  std::atomic<size_t> kernels_{0};
};

}  // namespace cudaep::abi
