// Constants of a graph that its regions read on the device, each there once.
//
// It owns nothing: a constant is there for as long as somebody holds it. Threads: one at a time.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "graph/ir/graph.h"
#include "runtime/stream_context.h"

namespace cudaep::graph {

class WeightStore {
 public:
  // Device memory with the elements of a constant, from the stream's allocator of weights. One of the model's has the
  // same memory for all regions; the copy is queued on the stream of the first, which has ended before another asks.
  Result<std::shared_ptr<void>> OnDevice(const ir::Value& constant, StreamContext& stream);

 private:
  std::map<std::string, std::weak_ptr<void>> known_;  // by name
};

}  // namespace cudaep::graph
