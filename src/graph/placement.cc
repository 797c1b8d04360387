#include "graph/placement.h"

#include <algorithm>

namespace cudaep::graph {
namespace {

class ShapeNodeFinder {
 public:
  explicit ShapeNodeFinder(const PlacementGraph& graph)
      : graph_(graph),
        shape_(graph.nodes.size(), false),
        indifferent_(graph.nodes.size(), false),
        host_value_(graph.values.size(), false) {
    for (size_t v = 0; v < graph.values.size(); ++v) host_value_[v] = graph.values[v].host_output;
  }

  std::vector<bool> Find() {
    GrowForward();
    DropThoseForTheDevice();
    PlaceIndifferentNodes();
    if (NothingElse() && !HasValuesOfTheHost()) std::fill(shape_.begin(), shape_.end(), false);
    return shape_;
  }

 private:
  // Nodes whose inputs are all host values, one of them computed. Topological order makes one pass enough.
  void GrowForward() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const PlacementNode& node = graph_.nodes[n];
      bool computed = false;
      bool all_host = (node.claimed || node.falls_to_cpu) && !node.runs_graphs && !node.collective;
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

  // A shape node belongs to the device when results of it are wanted there and none in host memory. Users come after
  // their producers, so one pass backwards is enough. Shape reads no values: what only it and the like of it use is
  // indifferent, and goes where its inputs are.
  void DropThoseForTheDevice() {
    std::vector<bool> on_device(graph_.values.size(), false);
    std::vector<bool> on_host(graph_.values.size(), false);
    std::vector<bool> for_shape(graph_.values.size(), false);
    for (size_t v = 0; v < graph_.values.size(); ++v) on_host[v] = graph_.values[v].graph_output;
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      const PlacementNode& node = graph_.nodes[n];
      const bool wanted_on_device = AnyOutput(node, on_device);
      const bool wanted_on_host = AnyOutput(node, on_host);
      if (shape_[n] && wanted_on_device && !wanted_on_host) shape_[n] = false;
      indifferent_[n] = IsSource(node) || (shape_[n] && !wanted_on_host && AnyOutput(node, for_shape));
      for (const PlacementUse& use : node.inputs) {
        if (use.value < 0) continue;
        const auto v = static_cast<size_t>(use.value);
        if (use.host_input || node.falls_to_cpu || (shape_[n] && !indifferent_[n])) {
          on_host[v] = true;
        } else if (indifferent_[n]) {
          for_shape[v] = true;
        } else if (node.claimed) {
          on_device[v] = true;
        }
      }
    }
  }

  void PlaceIndifferentNodes() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!shape_[n] || !indifferent_[n]) continue;
      const auto& inputs = graph_.nodes[n].inputs;
      shape_[n] = std::all_of(inputs.begin(), inputs.end(), [&](const PlacementUse& use) {
        if (use.value < 0) return true;
        const PlacementValue& value = graph_.values[static_cast<size_t>(use.value)];
        return value.small_constant || value.host_output ||
               (value.producer >= 0 && shape_[static_cast<size_t>(value.producer)]);
      });
    }
  }

  static bool AnyOutput(const PlacementNode& node, const std::vector<bool>& flags) {
    return std::any_of(node.outputs.begin(), node.outputs.end(),
                       [&](int output) { return output >= 0 && flags[static_cast<size_t>(output)]; });
  }

  bool IsSource(const PlacementNode& node) const {
    return std::any_of(node.outputs.begin(), node.outputs.end(), [&](int output) {
      return output >= 0 && graph_.values[static_cast<size_t>(output)].host_output;
    });
  }

  // Whether every node is a shape node or a source of host values.
  bool NothingElse() const {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!shape_[n] && !IsSource(graph_.nodes[n])) return false;
    }
    return true;
  }

  bool HasValuesOfTheHost() const {
    return std::any_of(graph_.values.begin(), graph_.values.end(),
                       [](const PlacementValue& value) { return value.host_output && value.producer < 0; });
  }

  const PlacementGraph& graph_;
  std::vector<bool> shape_;
  std::vector<bool> indifferent_;  // makes what only a Shape reads
  std::vector<bool> host_value_;
};

}  // namespace

std::vector<bool> FindShapeNodes(const PlacementGraph& graph) { return ShapeNodeFinder(graph).Find(); }

}  // namespace cudaep::graph
