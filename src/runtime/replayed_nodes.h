// Whose work a replay of a CUDA graph repeats: a table from the graph's nodes to the model's, made at capture.
//
//   ReplayedNodes table;                 // for each capture
//   table.NodeQueued(stream, node)       // after each node of the model
//   table.End(graph)                     // the capture has ended
//
// Threads: as its owner; immutable after End.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/graph_nodes.h"
#include "lib/activity.h"

namespace cudaep {

// A node of the model as profiles name it. The texts live as long as the process (memory::InternLabel).
struct ModelNode {
  const char* name = "";
  const char* op_type = "";
  double cost_bytes = 0, cost_flops = 0;  // what its plan states of one call
  const char* type = "";                  // of its first output, for what the host has no event of its own for
};

class ReplayedNodes {
 public:
  static constexpr uint32_t kNobody = ~uint32_t{0};

  // A failure leaves the whole table without names, and nothing else.
  void NodeQueued(device::Stream stream, const ModelNode& node);
  void End(device::Graph graph);

  // For each activity of one launch of the graph, an index into nodes(), or kNobody. `activities` are put in the order
  // in which they were captured. Where they are not as many as the graph has traced nodes in a known order
  // (device::GraphNodes), none has a name.
  std::vector<uint32_t> Match(std::span<lib::Activity*> activities) const;

  const std::vector<ModelNode>& nodes() const { return nodes_; }

 private:
  std::vector<ModelNode> nodes_;
  std::vector<size_t> ends_;      // graph nodes captured up to the end of each of nodes_
  std::vector<uint32_t> traced_;  // for each traced node of the graph, in the order of capture, whose it is
  bool is_chain_ = false, failed_ = false;
};

}  // namespace cudaep
