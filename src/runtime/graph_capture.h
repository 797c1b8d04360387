// From the work of a stream to a CUDA graph that can be launched: the capture, and the graph with what it costs.
//
//   GraphCapture capture;
//   capture.Begin(stream); ... queue ...; capture.End(graph.Receive());
//   LaunchableGraph launchable;
//   launchable.Make(graph.get(), memory); launchable.Launch(stream);
//
// The stream is one of our own, which nobody else queues work on meanwhile. Captures are thread-local ones, and take
// turns with waits for a whole device (memory/capture_gate.h).
// Threads: a capture begins and ends on one thread; a graph belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "device/device.h"
#include "memory/capture_gate.h"
#include "memory/device_memory.h"
#include "runtime/graph_tally.h"

namespace cudaep {

class GraphCapture {
 public:
  GraphCapture() = default;
  // Ends a capture that nobody has ended, and drops it.
  ~GraphCapture();
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;

  Status Begin(device::Stream stream);
  // The capture ends in any case. `*graph` is null where it failed.
  Status End(device::Graph* graph);
  bool is_on() const { return turn_.has_value(); }

 private:
  device::Stream stream_ = nullptr;
  std::optional<memory::CaptureTurn> turn_;  // while the stream is captured
};

// Charged to the memory's budget as BudgetKind::kGraphs while it lives. What it was captured with must be there at each
// launch, and outlive the launches' work; the graph itself may end before that.
class LaunchableGraph {
 public:
  // Device memory that a driver takes for one node of a graph that can be launched: 10 to 20 KiB were seen.
  static constexpr size_t kBytesPerNode = size_t{16} << 10;

  LaunchableGraph() = default;
  ~LaunchableGraph() { Reset(); }
  LaunchableGraph(LaunchableGraph&& other) noexcept { *this = std::move(other); }
  LaunchableGraph& operator=(LaunchableGraph&& other) noexcept;

  // Once. A graph without nodes makes nothing, and launches nothing. kOutOfMemory where the budget does not allow it.
  Status Make(GraphKind kind, device::Graph graph, std::shared_ptr<memory::DeviceMemory> memory);
  Status Launch(device::Stream stream) const {
    if (!exec_) return Status::Ok();
    tally_->CountLaunch();
    return device::GraphLaunch(exec_.get(), stream);
  }
  void Reset();
  explicit operator bool() const { return static_cast<bool>(exec_); }

 private:
  device::UniqueGraphExec exec_;
  std::shared_ptr<memory::DeviceMemory> memory_;
  size_t charged_bytes_ = 0;
  std::unique_ptr<GraphTally> tally_;  // where there is a graph
};

}  // namespace cudaep
