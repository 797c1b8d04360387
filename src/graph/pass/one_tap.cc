#include "graph/pass/one_tap.h"

#include <algorithm>

#include "graph/ir/graph.h"
#include "ops/conv/conv_plan.h"
#include "ops/registry.h"

namespace cudaep::graph {

const ops::TensorView* OneTapWeights(const ir::Graph& graph, const ir::Node& node, const Settings& settings) {
  if (node.on_host || !(node.Is("Conv") || node.Is("Conv", ops::kFusedDomain))) return nullptr;
  const ir::Value& weights = graph.value(node.inputs[1]);
  const ops::TensorView& w = weights.constant;
  if (!weights.is_constant() || w.rank < 3 || w.elems() == 0 || w.elems() != w.dim[0] * w.dim[1]) return nullptr;
  auto conv = ops::ParseConv(ir::NodeInfo(graph, node, settings));
  const bool is_plain =
      conv.ok() && conv->groups == 1 && std::ranges::all_of(conv->window.pads, [](int64_t pad) { return pad == 0; });
  return is_plain ? &w : nullptr;
}

}  // namespace cudaep::graph
