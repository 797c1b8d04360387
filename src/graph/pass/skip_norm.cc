#include "graph/pass/skip_norm.h"

#include "graph/pass/rewrite.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

// The operator that adds first; null: the node is no normalisation of rows, or one with other outputs.
const char* SkipOperatorOf(const ir::Graph& graph, const ir::Node& node) {
  const bool layer = node.Is("LayerNormalization");
  if (!layer && !node.Is("RMSNormalization") && !node.Is("SimplifiedLayerNormalization")) return nullptr;
  const auto& dims = graph.value(node.inputs[0]).dims;
  if (!dims || node.outputs.size() != 1) return nullptr;
  const int64_t axis = IntAttribute(node, "axis", -1);
  if (axis != -1 && axis != static_cast<int64_t>(dims->size()) - 1) return nullptr;
  return layer ? "SkipLayerNormalization" : "SkipSimplifiedLayerNormalization";
}

// Whether the node may stand where another one did: all that it reads is there.
bool IsMadeBefore(const Rewriter& rewrite, int value, int index) {
  return value < 0 || rewrite.match.MakerIndex(value) < index;
}

void Fuse(const Rewriter& rewrite, int index, NodeRemoval& gone) {
  const ir::Graph& graph = rewrite.graph;
  const ir::Node& norm = rewrite.node(index);
  const char* const op = SkipOperatorOf(graph, norm);
  const ir::Node* const add = op == nullptr ? nullptr : rewrite.match.Maker(norm.inputs[0], "Add");
  if (add == nullptr) return;
  const int at = rewrite.match.MakerIndex(norm.inputs[0]), sum = norm.inputs[0];
  const auto& dims = *graph.value(sum).dims;
  const int a = add->inputs[0], b = add->inputs[1];
  const bool is_sum_of_alike = !graph.value(a).is_constant() && !graph.value(b).is_constant() &&
                               graph.SameDims(a, sum) && graph.SameDims(b, sum);
  if (!is_sum_of_alike || dims.size() < 2) {
    return rewrite.Miss(index, "the summands are not stated to have the same two or more dimensions");
  }
  const DataType type = graph.value(sum).type;
  if (!kFloatTypesNoDouble.Contains(type)) return;
  for (size_t i = 1; i < norm.inputs.size(); ++i) {
    const int value = norm.inputs[i];
    if (value < 0) continue;
    if (!IsVectorOfLast(graph, value, sum) || graph.value(value).type != type || !IsMadeBefore(rewrite, value, at)) {
      return rewrite.Miss(index, "scale and bias are not vectors of the summands' type");
    }
  }
  ir::Node fused = rewrite.Instead(index, ops::kMicrosoftDomain, op, 1);
  fused.inputs = {a, b, norm.inputs[1]};
  if (norm.inputs.size() > 2 && norm.Is("LayerNormalization")) fused.inputs.push_back(norm.inputs[2]);
  fused.attributes = {{"epsilon", FloatAttribute(norm, "epsilon", 1e-5f)}};
  if (!rewrite.match.IsReadOnce(sum)) fused.outputs = {norm.outputs[0], -1, -1, sum};
  if (rewrite.Replace(at, std::move(fused))) gone.Mark(index);
}

}  // namespace

void FuseSkipNorms(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kSkipNorm);
  NodeRemoval gone(graph);
  for (int n = 0; n < rewrite.node_count(); ++n) {
    if (!rewrite.node(n).on_host) Fuse(rewrite, n, gone);
  }
  gone.Apply(graph);
}

}  // namespace cudaep::graph
