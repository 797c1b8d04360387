#include "graph/pass/qdq_softmax.h"

#include "graph/pass/quantization.h"
#include "graph/pass/rewrite.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

// Scale and zero point, of one element each.
void AddCoding(ir::Graph& graph, const ir::Node& node, DataType codes, ir::Node& made) {
  int zero = node.inputs.size() > 2 ? node.inputs[2] : -1;
  if (zero < 0) {
    const std::string name = graph.value(node.inputs[1]).name;
    zero = graph.AddConstant(name, {.type = codes, .dims = {}, .data = {std::byte{0}}});
  }
  made.inputs.push_back(node.inputs[1]);
  made.inputs.push_back(zero);
}

void Visit(const Rewriter& rewrite, int index) {
  ir::Graph& graph = rewrite.graph;
  const ir::Node& quantize = rewrite.node(index);
  const auto y = QuantizationOf(graph, quantize, "QuantizeLinear");
  const ir::Node* const softmax = y && y->is_uniform() ? rewrite.match.Maker(y->real, "Softmax") : nullptr;
  if (softmax == nullptr || !rewrite.match.IsPrivate(y->real)) return;
  const auto x = CodedValueOf(graph, rewrite.match, softmax->inputs[0]);
  if (!x || !x->linear.is_uniform() || graph.value(x->linear.codes).is_constant()) return;
  if (x->linear.type != y->type) return rewrite.Miss(index, "codes before and behind Softmax are of two types");
  for (const int scale : {x->node->inputs[1], quantize.inputs[1]}) {
    if (graph.value(scale).type != DataType::kFloat) return rewrite.Miss(index, "Softmax is not between codes of fp32");
  }
  // Softmax also takes a scalar, and before version 13 an axis behind the last.
  const int64_t opset = softmax->since_version, axis = IntAttribute(*softmax, "axis", opset < 13 ? 1 : -1);
  const auto& dims = graph.value(x->linear.codes).dims;
  const int64_t rank = dims ? static_cast<int64_t>(dims->size()) : 0;
  if (axis < -rank || axis >= rank) return rewrite.Miss(index, "Softmax is not known to be along a dimension");
  ir::Node made = rewrite.Instead(index, ops::kMicrosoftDomain, "QLinearSoftmax", 1);
  made.attributes = {{"axis", axis}, {"opset", opset}};
  made.inputs = {x->linear.codes};
  AddCoding(graph, *x->node, x->linear.type, made);
  AddCoding(graph, rewrite.node(index), y->type, made);
  if (!rewrite.Replace(index, std::move(made))) rewrite.Miss(index, "no kernel takes the codes");
}

}  // namespace

void SoftmaxCodes(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kQdq);
  for (int n = 0; n < rewrite.node_count(); ++n) Visit(rewrite, n);
}

}  // namespace cudaep::graph
