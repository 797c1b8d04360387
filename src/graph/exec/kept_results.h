// What steps of a region come to for one set of input dimensions, on the device, once it was worth computing apart.
//
// The first call computes it beside everything else, in the block; so dimensions that come once cost nothing more. The
// second has it computed into memory of its own, which the calls after it read, on any stream: until that work is known
// to be done, their streams wait for it. A call that warms a graph up comes again, and has it computed at once. Memory
// is charged as weights are. A region's results take kMostOfRegion at the most, and under a memory limit a quarter of
// what is left of it; meanwhile every call computes them as the first. Ownership: the recipe's, and of the graphs that
// read it. Threads: any number of calls at once.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>

#include "runtime/stream_context.h"

namespace cudaep::graph {

class KeptResults {
 public:
  static constexpr size_t kMost = size_t{4} << 20, kMostOfRegion = size_t{32} << 20;
  using Total = std::atomic<size_t>;
  // Queues the work, on the stream of the call, that fills the memory.
  using Compute = std::function<Status(std::byte* memory)>;

  // `total`: of the region's results that have memory.
  KeptResults(size_t bytes, std::shared_ptr<Total> total) : bytes_(bytes), total_(std::move(total)) {}
  ~KeptResults();
  KeptResults(const KeptResults&) = delete;
  KeptResults& operator=(const KeptResults&) = delete;

  // Where work that is queued on the stream now finds the results; null: it computes them itself. So it does while the
  // stream is captured by its owner, whose graph may outlive this. A graph of ours holds the plans that it is captured
  // with (runtime/device_graph.h), and so this.
  std::byte* For(StreamContext& stream, const Compute& compute);

 private:
  enum class State : uint8_t { kNew, kMet, kBusy, kQueued, kDone, kNever };

  static constexpr int kCallsBetweenTries = 64;

  // Of the region's bytes and of what the memory limit leaves; others may give theirs back later.
  bool TakeShare(StreamContext& stream);
  Status Make(StreamContext& stream, const Compute& compute);
  Status Await(StreamContext& stream);
  std::byte* InCapture();

  const size_t bytes_;
  const std::shared_ptr<Total> total_;
  std::atomic<State> state_{State::kNew};
  std::atomic<int> wait_{0};  // calls until a share is asked for again
  // Written before the state is kQueued.
  std::shared_ptr<void> memory_;
  device::UniqueEvent computed_;
};

}  // namespace cudaep::graph
