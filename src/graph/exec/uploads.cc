#include "graph/exec/uploads.h"

#include "ops/registry.h"

namespace cudaep::graph {

void AddUploads(ir::Graph& graph, bool once) {
  std::vector<int> maker(graph.values.size(), -1), uploaded(graph.values.size(), -1);  // of values of nodes on the host
  std::vector<ir::Node> nodes;
  for (ir::Node& node : graph.nodes) {
    const ops::KernelRow* const row =
        node.on_host ? nullptr : ops::FindRow(node.domain, node.op_type, node.since_version);
    for (size_t i = 0; row != nullptr && i < node.inputs.size(); ++i) {
      int& value = node.inputs[i];
      if (value < 0 || maker[static_cast<size_t>(value)] < 0 || row->IsHostInput(static_cast<int>(i))) continue;
      int& copy = uploaded[static_cast<size_t>(value)];
      if (copy < 0) {
        const ir::Value& from = graph.value(value);
        ir::Value made{.name = from.name, .type = from.type, .kind = from.kind, .dims = from.dims};
        const ir::Node& source = nodes[static_cast<size_t>(maker[static_cast<size_t>(value)])];
        copy = graph.AddValue(std::move(made));
        ir::Node upload{.name = source.name,
                        .domain = ops::kFusedDomain,
                        .op_type = "FromHost",
                        .since_version = 1,
                        .inputs = {value},
                        .outputs = {copy},
                        .once = once,
                        .sources = source.sources};
        nodes.push_back(std::move(upload));
      }
      value = copy;
    }
    if (node.on_host) {
      for (const int output : node.outputs) {
        if (output >= 0) maker[static_cast<size_t>(output)] = static_cast<int>(nodes.size());
      }
    }
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
}

}  // namespace cudaep::graph
