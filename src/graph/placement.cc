#include "graph/placement.h"

#include <algorithm>

namespace cudaep::graph {
namespace {

class ShapeNodeFinder {
 public:
  explicit ShapeNodeFinder(const PlacementGraph& graph)
      : graph_(graph), shape_(graph.nodes.size(), false), host_value_(graph.values.size(), false) {
    for (size_t v = 0; v < graph.values.size(); ++v) host_value_[v] = graph.values[v].host_output;
  }

  std::vector<bool> Find() {
    GrowForward();
    while (DropThoseWithDeviceUses()) {
    }
    if (NothingElse() && !HasValuesOfTheHost()) std::fill(shape_.begin(), shape_.end(), false);
    return shape_;
  }

 private:
  // Nodes whose inputs are all host values, one of them computed. Topological order makes one pass enough.
  void GrowForward() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const PlacementNode& node = graph_.nodes[n];
      bool computed = false;
      bool all_host = (node.claimed || node.falls_to_cpu) && !node.runs_graphs;
      for (const PlacementUse& use : node.inputs) {
        if (use.value < 0) continue;
        const auto v = static_cast<size_t>(use.value);
        computed = computed || host_value_[v];
        all_host = all_host && (host_value_[v] || graph_.values[v].small_constant);
      }
      if (!all_host || !computed) continue;
      shape_[n] = true;
      for (int output : node.outputs) {
        if (output >= 0) host_value_[static_cast<size_t>(output)] = true;
      }
    }
  }

  // A shape node whose result a kernel wants on the device belongs there too. True when something changed.
  bool DropThoseWithDeviceUses() {
    std::vector<bool> wanted_on_device(graph_.values.size(), false);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (shape_[n] || !graph_.nodes[n].claimed) continue;
      for (const PlacementUse& use : graph_.nodes[n].inputs) {
        if (use.value >= 0 && !use.host_input) wanted_on_device[static_cast<size_t>(use.value)] = true;
      }
    }
    bool changed = false;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!shape_[n]) continue;
      const auto& outputs = graph_.nodes[n].outputs;
      const bool drop = std::any_of(outputs.begin(), outputs.end(), [&](int output) {
        return output >= 0 && wanted_on_device[static_cast<size_t>(output)];
      });
      if (!drop) continue;
      shape_[n] = false;
      changed = true;
    }
    // What a dropped node feeds is no longer in host memory.
    if (changed) {
      for (size_t v = 0; v < graph_.values.size(); ++v) {
        const int producer = graph_.values[v].producer;
        host_value_[v] = graph_.values[v].host_output || (producer >= 0 && shape_[static_cast<size_t>(producer)]);
      }
      for (size_t n = 0; n < graph_.nodes.size(); ++n) {
        if (!shape_[n]) continue;
        for (const PlacementUse& use : graph_.nodes[n].inputs) {
          if (use.value < 0) continue;
          const auto v = static_cast<size_t>(use.value);
          if (!host_value_[v] && !graph_.values[v].small_constant) shape_[n] = false;
        }
        if (shape_[n]) continue;
        for (int output : graph_.nodes[n].outputs) {
          if (output >= 0) host_value_[static_cast<size_t>(output)] = false;
        }
      }
    }
    return changed;
  }

  // Whether every node is a shape node or a source of host values.
  bool NothingElse() const {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const auto& outputs = graph_.nodes[n].outputs;
      const bool source = std::any_of(outputs.begin(), outputs.end(), [&](int output) {
        return output >= 0 && graph_.values[static_cast<size_t>(output)].host_output;
      });
      if (!shape_[n] && !source) return false;
    }
    return true;
  }

  bool HasValuesOfTheHost() const {
    return std::any_of(graph_.values.begin(), graph_.values.end(),
                       [](const PlacementValue& value) { return value.host_output && value.producer < 0; });
  }

  const PlacementGraph& graph_;
  std::vector<bool> shape_;
  std::vector<bool> host_value_;
};

}  // namespace

std::vector<bool> FindShapeNodes(const PlacementGraph& graph) { return ShapeNodeFinder(graph).Find(); }

}  // namespace cudaep::graph
