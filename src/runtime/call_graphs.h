// CUDA graphs of one operator's calls on one stream: found by all that a call's work depends on, a few kept.
//
// A call is its plan and every address that its work reads or writes; a graph is launched for the very call that it was
// captured with, and for no other. Which calls are worth a graph: those that come again. One that was not met lately is
// only remembered, kRemembered of them. A graph that has to make room before it was launched kWorthwhile times was
// captured in vain: then so many calls without a graph are queued plainly before the next capture, twice as many each
// time; so capturing costs less than it saves, whatever the addresses do. Threads: the one that runs the stream, apart
// from Drop.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/graph_capture.h"

namespace cudaep {

struct GraphCall {
  uint64_t plan = 0;  // no other plan of the process has it, nor had it before
  std::span<const void* const> addresses;
};

class CallGraphs {
 public:
  static constexpr size_t kMostOfPlan = 4, kMost = 16, kRemembered = 256;
  static constexpr uint32_t kWorthwhile = 8;
  static constexpr uint32_t kFirstPause = 16, kLongestPause = 4096;

  CallGraphs() = default;
  CallGraphs(const CallGraphs&) = delete;
  CallGraphs& operator=(const CallGraphs&) = delete;

  // Whether the call has a graph, which was launched. A failed launch has queued nothing; the graph is dropped.
  Result<bool> Launch(const GraphCall& call, device::Stream stream);
  // Of a call without a graph: whether it is to be captured.
  bool IsWorthCapturing(const GraphCall& call);
  // `kept` lives as long as the graph.
  void Add(const GraphCall& call, LaunchableGraph graph, std::shared_ptr<const void> kept);
  // A graph could not be made, or not be launched.
  void Failed() { pause_ = last_pause_ = kLongestPause; }

  // All graphs end. By any thread, once no call is under way and none will come.
  void Drop();
  bool is_dropped() const { return is_dropped_.load(std::memory_order_acquire); }

  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    uint64_t plan = 0;
    std::vector<const void*> addresses;
    LaunchableGraph graph;
    std::shared_ptr<const void> kept;
    uint32_t launches = 0;

    bool IsOf(const GraphCall& call) const;
  };
  void MakeRoom(uint64_t plan);
  void Evict(size_t index);

  std::vector<std::unique_ptr<Entry>> entries_;  // the last used first
  std::array<uint64_t, kRemembered> met_{};      // hashes of calls without a graph, the latest
  size_t next_met_ = 0;
  uint32_t pause_ = 0, last_pause_ = 0;  // calls without a graph until the next capture
  std::atomic<bool> is_dropped_{false};
};

}  // namespace cudaep
