#include "graph/pass/once.h"

#include <algorithm>

#include "ops/registry.h"

namespace cudaep::graph {

void MarkOnce(ir::Graph& graph, const PassContext&) {
  std::vector<uint8_t> is_known(graph.values.size(), 0);
  for (size_t v = 0; v < graph.values.size(); ++v) is_known[v] = graph.values[v].is_constant() ? 1 : 0;
  const auto known = [&](int value) { return value < 0 || is_known[static_cast<size_t>(value)] != 0; };
  const auto leaves = [&](int value) { return value >= 0 && graph.value(value).output >= 0; };
  for (ir::Node& node : graph.nodes) {
    if (!node.on_host) {
      const ops::KernelRow* const row = ops::FindRow(node.domain, node.op_type, node.since_version);
      node.once = row != nullptr && row->pure && std::ranges::all_of(node.inputs, known) &&
                  std::ranges::none_of(node.outputs, leaves);
    }
    for (const int output : node.outputs) {
      if (output >= 0 && (node.on_host || node.once)) is_known[static_cast<size_t>(output)] = 1;
    }
  }
}

}  // namespace cudaep::graph
