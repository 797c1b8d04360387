#include "graph/copies.h"

namespace cudaep::graph {
namespace {

struct Readers {
  std::vector<int> on_host, on_device;  // nodes
};

std::vector<Readers> ReadersOf(const PlacementGraph& graph, const GraphReport& report) {
  std::vector<Readers> readers(graph.values.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const NodeHome home = report.nodes[n].home;
    const bool in_region = home == NodeHome::kEvaluated;  // which takes all values on the device
    for (const PlacementUse& use : graph.nodes[n].inputs) {
      if (use.value < 0) continue;
      Readers& all = readers[static_cast<size_t>(use.value)];
      std::vector<int>& there = in_region || (home == NodeHome::kOurs && !use.host_input) ? all.on_device : all.on_host;
      if (there.empty() || there.back() != static_cast<int>(n)) there.push_back(static_cast<int>(n));
    }
  }
  return readers;
}

}  // namespace

std::vector<CopyReport> FindCopies(const PlacementGraph& graph, const GraphReport& report) {
  std::vector<CopyReport> copies;
  std::vector<Readers> readers = ReadersOf(graph, report);
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const PlacementValue& value = graph.values[v];
    auto& [on_host, on_device] = readers[v];
    if (value.constant || (value.producer < 0 && !report.parent.empty())) continue;
    const NodeHome maker =
        value.producer < 0 ? NodeHome::kOtherTaken : report.nodes[static_cast<size_t>(value.producer)].home;
    if (maker == NodeHome::kEvaluated) continue;
    const bool made_on_device = maker == NodeHome::kOurs && !value.host_output;
    if (made_on_device && !on_host.empty()) {
      copies.push_back({.to_device = false, .value = value.name, .producer = value.producer, .readers = on_host});
    } else if (!made_on_device && !on_device.empty() && (value.producer >= 0 || !on_host.empty())) {
      copies.push_back({.to_device = true, .value = value.name, .producer = value.producer, .readers = on_device});
    }
  }
  return copies;
}

}  // namespace cudaep::graph
