#include "runtime/replayed_nodes.h"

#include <algorithm>

namespace cudaep {

void ReplayedNodes::NodeQueued(device::Stream stream, const ModelNode& node) {
  size_t count = 0;
  if (!device::CapturedNodeCount(stream, &count).ok()) {
    failed_ = true;  // whose the work since the last node is, nobody knows
    return;
  }
  nodes_.push_back(node);
  ends_.push_back(count);
}

void ReplayedNodes::End(device::Graph graph) {
  device::GraphNodes all;
  if (failed_ || !device::GetGraphNodes(graph, &all).ok()) return;
  is_chain_ = all.is_chain;
  uint32_t node = 0;
  for (size_t i = 0; i < all.traced.size(); ++i) {
    while (node < ends_.size() && ends_[node] <= i) ++node;
    if (all.traced[i]) traced_.push_back(node < nodes_.size() ? node : kNobody);
  }
  ends_ = {};
}

// Nodes of a chain start one after the other. Elsewhere the trace's numbers tell which was captured first.
std::vector<uint32_t> ReplayedNodes::Match(std::span<lib::Activity*> activities) const {
  if (activities.size() != traced_.size()) return std::vector<uint32_t>(activities.size(), kNobody);
  std::stable_sort(activities.begin(), activities.end(), [&](const lib::Activity* a, const lib::Activity* b) {
    return is_chain_ ? a->begin_ns < b->begin_ns : a->graph_node < b->graph_node;
  });
  return traced_;
}

}  // namespace cudaep
