// Measures ways to do the same work on the device.
//
// What is measured is a function of the caller's: one plan alone, or a chain with the plan in it. Alternatives take
// turns, and before each the second-level cache is written over, so that weights come from memory as they do in a model
// and launches wait in the queue instead of counting. Tensors hold random values: zeros draw less power and run faster.
// All memory is charged to the budget of the stream's session while it is used.
// Threads: the stream's. Waits for the stream; must not run while it is captured.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/data_type.h"
#include "runtime/stream_context.h"

namespace cudaep {

// Tensors to measure with; given back at the end, after the stream's work.
class TimingTensors {
 public:
  explicit TimingTensors(StreamContext& stream) : stream_(stream) {}
  ~TimingTensors();
  TimingTensors(const TimingTensors&) = delete;
  TimingTensors& operator=(const TimingTensors&) = delete;

  // Random values of a float type in [-1, 1), or small integers; null for 0 elements. kOutOfMemory where the budget or
  // the device has no room.
  Result<void*> Random(DataType type, int64_t elems);
  Result<void*> Uninitialised(size_t bytes);

 private:
  StreamContext& stream_;
  std::vector<void*> blocks_;
};

// Median milliseconds of each alternative, infinity for one that fails to run; `run(i)` queues alternative i on the
// stream. After `most_ms` (0: no limit) and once one has run, no more of them are begun: those that were are run once
// more, the others are infinite. Fails when the device is lost or there is no memory for the cache to be written over.
Result<std::vector<float>> TimeAlternatives(StreamContext& stream, size_t alternatives,
                                            const std::function<Status(size_t)>& run, int rounds = 5,
                                            int64_t most_ms = 0);

}  // namespace cudaep
