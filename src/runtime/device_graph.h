// One CUDA graph of a session: the Runs that warm it up, the capture, the replays.
//
//   graph.Begin(setup)                     // of each Run
//   graph.Enter() -> StreamContext         // for each node; the first one of the Run to capture begins the capture
//   graph.End(outcome, synchronize)        // that Run ends the capture, makes the graph and launches it once
//   graph.Replay()
//
// A Run that begins later all the same (threads that waited for their turn) is executed beside the graph, in its turn.
// All these Runs are queued on a stream that is the graph's own, with a context of its own: workspace, tickets, library
// handles and every tensor that a Run allocates there belong to the graph, so nothing that it has recorded is ever
// handed to anybody else, and all of it comes back when the graph ends. Plans that its nodes were queued with are held
// for as long. What the caller's buffers hold is the caller's: their addresses are recorded, and nothing tells a
// replay that they have changed.
// Order: where all work of a session is queued on one stream (the caller's, or the unified one), or is ordered with
// the legacy default stream, a Run starts after what is queued there and what is queued there later starts after it;
// replays are launched there. Elsewhere the graph's own stream is unordered with all others.
// Ownership: owns stream, context and graph; the stream of the session must outlive it.
// Threads: the mutex serialises Runs and replays; everything but `captured` and IsRunHere is called under it.
// Failure: a Run that fails before the graph exists drops all that the graph has; the next one begins anew.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/graph_capture.h"
#include "runtime/held_plans.h"
#include "runtime/replayed_nodes.h"
#include "runtime/stream_context.h"

namespace cudaep {

class DeviceGraph {
 public:
  struct Setup {
    std::shared_ptr<memory::DeviceMemory> memory;
    LibrarySet libraries;                  // whose handles the nodes use
    device::Stream only_stream = nullptr;  // that all work of the session is queued on; null where each Run has its own
    bool order_with_legacy_stream = false;
    int warm_up_runs = 1;
  };

  DeviceGraph() = default;
  ~DeviceGraph() { Drop(); }
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;

  std::mutex& mutex() { return mutex_; }
  // Whether the calling thread is inside a Run, which it would wait for.
  bool IsRunHere() const { return runner_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }
  // Whether it can be replayed.
  bool captured() const { return captured_.load(std::memory_order_acquire); }

  // kFailedPrecondition while the session's stream is captured by its owner, kNotSupported for memory that cannot
  // belong to a graph.
  Status Begin(const Setup& setup);
  // The stream that the Run is queued on.
  device::Stream stream() const { return stream_.get(); }
  Result<StreamContext*> Enter();
  // A plan (ops/plan_cache.h) that is in use by the caller lives as long as the graph.
  void Hold(const void* plan);
  // A node of the model has been queued. What of the graph is its, profiles of replays know (runtime/profiler.h).
  void NodeQueued(const ModelNode& node);
  // `outcome` is the Run's, which is returned where it is an error. Waits for the device where it is asked to; the
  // replays of a captured Run will do as it did.
  Status End(Status outcome, bool synchronize);

  // Instead of End, where the Run cannot go on.
  void GiveUp();

  Status Replay();

 private:
  class Unwinding;

  Status Prepare(const Setup& setup);
  bool IsApart() const { return launch_stream_ != stream_.get(); }
  Status Order(device::Stream later, device::Stream earlier);
  Status CheckLaunchStream() const;
  Status BeginCapture();
  Status FinishCapture(const Status& outcome);
  Status Launch();
  Status MarkLast();
  Status Await();
  void Drop();

  std::mutex mutex_;
  std::atomic<std::thread::id> runner_{};
  std::atomic<bool> captured_{false};
  std::shared_ptr<memory::DeviceMemory> memory_;  // null: there is nothing yet
  device::UniqueStream stream_;
  device::UniqueStream ordered_stream_;  // with the legacy default stream
  device::Stream launch_stream_ = nullptr;
  device::UniqueEvent event_;
  std::optional<StreamContext> context_;
  LaunchableGraph exec_;
  std::optional<HeldPlans> plans_;  // that the graph was captured with
  std::shared_ptr<ReplayedNodes> replayed_;
  int warm_up_runs_ = 1;
  int runs_ = 0;  // that warmed it up
  enum class Phase : uint8_t { kWarmUp, kCapture, kBeside };
  Phase phase_ = Phase::kWarmUp;  // of the Run that has begun
  bool entered_ = false;
  bool synchronize_ = true;
  bool launched_ = false;  // with nobody having waited for it
  GraphCapture capture_;   // of the stream
};

}  // namespace cudaep
