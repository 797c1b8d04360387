// What a captured graph is made of, to tell whose work a replay of it did.
//
// Threads: as device.h. The simulated device numbers nodes as they are captured; CUDA gives them in no order that it
// promises, so that there only a chain has a known one.
#pragma once

#include <cstddef>
#include <vector>

#include "device/device.h"

namespace cudaep::device {

// Nodes that the capture of `stream` has by now. kFailedPrecondition while it is not captured.
Status CapturedNodeCount(Stream stream, size_t* count);

struct GraphNodes {
  // In the order of capture, for each node: whether it is a kernel, a copy or a fill, which are what a trace of the
  // device shows. Empty where the order is not known: on CUDA, of all but chains.
  std::vector<bool> traced;
  // Every node but the first comes after the one before it, so that they also run in this order.
  bool is_chain = false;
};
Status GetGraphNodes(Graph graph, GraphNodes* nodes);

}  // namespace cudaep::device
