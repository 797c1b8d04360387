#include "graph/region/candidates.h"

#include <algorithm>

namespace cudaep::graph {

RegionCandidates::RegionCandidates(const RegionGraph& graph, const RegionLinks& links)
    : graph_(graph), links_(links), has_(graph.nodes.size(), true) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (BreaksARule(graph.nodes[n])) Remove(static_cast<int>(n));
  }
}

void RegionCandidates::Remove(int node) {
  std::vector<int> doomed = {node};
  while (!doomed.empty()) {
    const int next = doomed.back();
    doomed.pop_back();
    if (!Has(next)) continue;
    has_[static_cast<size_t>(next)] = false;
    RemoveAround(next, &doomed);
  }
}

void RegionCandidates::PutBack(const std::vector<int>& nodes) {
  for (int node : nodes) has_[static_cast<size_t>(node)] = true;
}

bool RegionCandidates::MadeByShapeNode(const RegionValue& value) const {
  return value.producer >= 0 && graph_.nodes[static_cast<size_t>(value.producer)].role == RegionRole::kShape;
}

// Whether the roles around it alone keep the node out.
bool RegionCandidates::BreaksARule(const RegionNode& node) const {
  if (node.role == RegionRole::kOutside) return true;
  const bool shape = node.role == RegionRole::kShape;
  for (const RegionUse& use : node.inputs) {
    if (use.value < 0) continue;
    const bool on_host = shape ? !node.reads_dims_only : use.host_input;
    const RegionValue& value = graph_.values[static_cast<size_t>(use.value)];
    if (on_host && !value.host_constant && !MadeByShapeNode(value)) return true;
  }
  if (!shape) return false;
  return std::any_of(node.outputs.begin(), node.outputs.end(),
                     [&](int output) { return output >= 0 && graph_.values[static_cast<size_t>(output)].leaves; });
}

// A node outside takes with it the shape nodes that it reads, and a shape node those that read its values on the host.
void RegionCandidates::RemoveAround(int node, std::vector<int>* doomed) const {
  const RegionNode& gone = graph_.nodes[static_cast<size_t>(node)];
  for (const RegionUse& use : gone.inputs) {
    if (use.value < 0) continue;
    const RegionValue& value = graph_.values[static_cast<size_t>(use.value)];
    if (MadeByShapeNode(value)) doomed->push_back(value.producer);
  }
  if (gone.role != RegionRole::kShape) return;
  for (int output : gone.outputs) {
    if (output < 0) continue;
    for (const RegionLinks::Reader& reader : links_.readers[static_cast<size_t>(output)]) {
      const RegionNode& other = graph_.nodes[static_cast<size_t>(reader.node)];
      const bool on_host = other.role == RegionRole::kShape ? !other.reads_dims_only : reader.host_input;
      if (on_host) doomed->push_back(reader.node);
    }
  }
}

}  // namespace cudaep::graph
