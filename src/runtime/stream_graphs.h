// The CUDA graphs that operators have captured for one stream, and the stream of our own that they are captured on.
//
// The stream itself may be one that cannot be captured, the legacy one or the caller's; so the work is captured on
// another, which runs nothing, with a context of its own: library handles, and the counters of the stream that the
// graphs are launched on. Graphs end with this, or earlier with their operator.
// Threads: the one that runs the stream.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "runtime/call_graphs.h"
#include "runtime/library_set.h"

namespace cudaep {

class StreamContext;

class StreamGraphs {
 public:
  StreamGraphs();
  ~StreamGraphs();
  StreamGraphs(const StreamGraphs&) = delete;
  StreamGraphs& operator=(const StreamGraphs&) = delete;

  // Null for an operator that has none.
  CallGraphs* Find(uint64_t op) const {
    for (const auto& [owner, graphs] : all_) {
      if (owner == op) return graphs.get();
    }
    return nullptr;
  }
  std::shared_ptr<CallGraphs> Add(uint64_t op);

  // The context of the stream that work of `target`, which this belongs to, is captured on. Made at first use: nothing
  // is captured meanwhile.
  Result<StreamContext*> CaptureContext(StreamContext& target, LibrarySet libraries);

 private:
  struct Capturer;

  std::unique_ptr<Capturer> capturer_;  // whose handles the graphs work with
  std::vector<std::pair<uint64_t, std::shared_ptr<CallGraphs>>> all_;
};

}  // namespace cudaep
