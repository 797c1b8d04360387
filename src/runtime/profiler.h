// Which node of a model each piece of the device's work belongs to, for whoever profiles.
//
//   Profiler profiler; profiler.Begin();         // the first of the process turns the trace on (lib/activity.h)
//   profiler.Enter(event); ... Leave(event, node) // on the thread that runs the node, around it
//   DescribeCall(bytes, flops)                    // inside, by the node's kernel
//   profiler.Close();                             // then the caller waits for the device
//   ProfiledEvents events = profiler.End();       // the last one turns the trace off
//
// Several profilers may be on at once; each gets what was queued on a thread between its own Enter and Leave, named by
// its innermost event there, or by the part of that event's node that it is in (PartScope). Work of a replayed CUDA
// graph goes to the profilers around the replay, named by the graph's table (runtime/replayed_nodes.h). While nobody
// profiles, a kernel's call pays one relaxed load, IsOn. Memory: at most kMostEvents events and as many activities for
// each profiler; what is more is counted, and work of an event more is that of the event around it. Events that were
// open when their profiler closed, inside events of another one, are kept until nobody profiles. Threads: Enter and
// Leave by any thread, each pair by one; the rest by any, also while others are between Enter and Leave: an event that
// is open at Close goes on until its thread leaves it, begins another one or replays a graph, or until End; what is
// queued later is nobody's. Failure: without a trace (no CUPTI, or another tool has it) everything works and there are
// no activities.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/activity.h"
#include "runtime/replayed_nodes.h"

namespace cudaep::profile {

inline constexpr size_t kMostEvents = size_t{1} << 20;

namespace detail {
inline constexpr uint32_t kRanges = uint32_t{1} << 31;
inline std::atomic<uint32_t> on{0};  // profilers with a trace, and kRanges where ranges are heard
}  // namespace detail

// Whether anybody profiles or listens to ranges.
inline bool IsOn() { return detail::on.load(std::memory_order_relaxed) != 0; }

// Whether anybody profiles.
inline bool IsRecording() { return (detail::on.load(std::memory_order_relaxed) & ~detail::kRanges) != 0; }

// From here on, where a tool listens to ranges (lib/ranges.h), calls of kernels are shown to it. For the process's
// life.
void ShowRanges();

// An event of the host around device work: a node, or a part of a Run.
struct NodeText {
  std::string name, op_type, index;
  bool is_node = false;
  std::string type = {};  // element type; told of parts of nodes (PartScope)
};

struct ProfiledActivity {
  lib::Activity activity;
  uint32_t node = 0;                      // in ProfiledEvents::nodes
  uint64_t call = 0;                      // which call of the node: all activities of one share it
  double cost_bytes = 0, cost_flops = 0;  // stated by its plan, of the whole call; 0: unknown
  bool replayed = false;
};

struct ProfiledEvents {
  std::vector<NodeText> nodes;               // the first has no name: of events that were still open at the end
  std::vector<ProfiledActivity> activities;  // by their begin
  uint64_t dropped = 0;                      // events that there was no room for
  uint64_t lost = 0;                         // records that the trace lost meanwhile, of any profiler
  Status flushed;                            // why an unknown number is missing
};

class Profiler {
 public:
  Profiler() = default;
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // Once. Why there will be no activities: the profiler can be used all the same.
  Status Begin();
  void Enter(uint64_t event);
  void Leave(uint64_t event, const NodeText& node);
  // Nothing that is queued from here on belongs to it.
  void Close();
  // After Close; what was queued before it is done. The current device is one of the profiled work's. Once after Begin;
  // later calls have nothing.
  ProfiledEvents End();

  // Of the trace, 0 without one.
  uint64_t Now() const;
  bool has_trace() const { return id_ != 0; }

 private:
  uint64_t id_ = 0;  // in the collector; 0: there is no trace
  std::atomic<bool> ended_{false};
};

// Of the node whose kernel runs on this thread.
void DescribeCall(double bytes, double flops);

// Around a kernel's call; `label` is shown as a range.
class CallScope {
 public:
  explicit CallScope(const char* label) : on_(detail::on.load(std::memory_order_relaxed)) {
    if (on_ != 0) [[unlikely]]
      Begin(label);
  }
  ~CallScope() {
    if (on_ != 0) [[unlikely]]
      End();
  }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

  bool is_on() const { return on_ != 0; }

 private:
  void Begin(const char* label) const;
  void End() const;
  const uint32_t on_;
};

// Around a part of a node's call, for each profiler that has an event around it: work inside is shown as the part's, a
// node of its own.
class PartScope {
 public:
  // `part` without costs: DescribeCall states them inside.
  explicit PartScope(const ModelNode& part) : part_(IsRecording() ? &part : nullptr) {
    if (part_ != nullptr) [[unlikely]]
      Begin();
  }
  ~PartScope() {
    if (part_ != nullptr) [[unlikely]]
      End();
  }
  PartScope(const PartScope&) = delete;
  PartScope& operator=(const PartScope&) = delete;

  bool is_on() const { return part_ != nullptr; }

 private:
  static void Begin();
  void End() const;
  const ModelNode* const part_;
};

// Around the launch of a captured graph.
class ReplayScope {
 public:
  explicit ReplayScope(const std::shared_ptr<ReplayedNodes>& nodes) {
    if (IsOn()) [[unlikely]]
      Push(nodes);
  }
  ~ReplayScope() {
    if (pushed_) [[unlikely]]
      Pop();
  }
  ReplayScope(const ReplayScope&) = delete;
  ReplayScope& operator=(const ReplayScope&) = delete;

 private:
  void Push(const std::shared_ptr<const ReplayedNodes>& nodes);
  static void Pop();
  bool pushed_ = false;
};

// Whether the device whose activities are told is a simulated one.
bool IsSimulated();

// Events that the process's profilers hold, for tests of their bounds.
size_t HeldScopes();

}  // namespace cudaep::profile
