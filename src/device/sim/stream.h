// State of streams and events. All of it is guarded by the simulator's lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "device/sim/clock.h"
#include "device/sim/sim.h"
#include "device/sim/work.h"

namespace cudaep::device::sim {

struct Capture;

struct QueuedWork {
  std::shared_ptr<const Work> work;
  uint64_t sequence = 0;
  uint32_t stream = 0;  // for messages
  Clock clock;          // of host callbacks: what they let the host know
  uint64_t scope = 0;   // of the thread that queued it, for the observer of activities
  uint64_t call = 0;
};

struct EventState {
  bool timing = false;
  std::shared_ptr<StreamHandle> source;  // null: never recorded
  uint64_t sequence = 0;
  uint64_t generation = 0;  // counts records
  Clock clock;
  std::chrono::steady_clock::time_point reached;
  uint64_t reached_generation = 0;
  // Recorded while `source` was capturing: the nodes it stands for.
  std::shared_ptr<Capture> capture;
  std::vector<uint32_t> nodes;
};

}  // namespace cudaep::device::sim

namespace cudaep::device {

struct StreamHandle : std::enable_shared_from_this<StreamHandle> {
  uint32_t id = 0;  // for messages; 0 is the legacy stream
  uint32_t slot = 0;
  int ordinal = 0;
  bool legacy = false;
  bool blocking = false;  // ordered with the legacy stream, both ways
  bool destroyed = false;
  bool was_captured = false;  // begun a capture, ever: a graph may use memory that blocks on it have left
  std::deque<sim::QueuedWork> queue;
  uint64_t submitted = 0, completed = 0;  // sequence numbers
  sim::Clock clock;                       // other streams' work that precedes the next operation
  sim::Counters counters;
  std::shared_ptr<sim::Capture> capture;
  std::vector<uint32_t> tail;  // capture nodes the next one depends on
};

struct EventHandle {
  int ordinal = 0;
  std::shared_ptr<sim::EventState> state;
};
struct GraphHandle {
  std::shared_ptr<const sim::GraphBody> body;
};
struct GraphExecHandle {
  std::shared_ptr<const sim::GraphBody> body;
};

}  // namespace cudaep::device
