#include "graph/pass/fused_product.h"

#include "ops/registry.h"

namespace cudaep::graph {

std::optional<ir::Node> AsFusedProduct(const Rewriter& rewrite, int index) {
  const ir::Graph& graph = rewrite.graph;
  const ir::Node& node = rewrite.node(index);
  if (node.on_host) return std::nullopt;
  if (node.Is("MatMul", ops::kFusedDomain) && !node.attributes.contains("activation")) {
    ir::Node fused = node;
    fused.sources.clear();
    return fused;
  }
  if (!node.Is("MatMul") && !node.Is("Gemm")) return std::nullopt;
  const auto &a = graph.value(node.inputs[0]).dims, &b = graph.value(node.inputs[1]).dims;
  if (!a || !b || a->size() < 2 || b->size() < 2) return std::nullopt;
  ir::Node fused = rewrite.Instead(index, ops::kFusedDomain, "MatMul", 1);
  fused.inputs = {node.inputs[0], node.inputs[1], -1, -1};
  if (node.Is("MatMul")) return fused;
  for (const char* name : {"transA", "transB", "alpha"}) {
    const auto found = node.attributes.find(std::string_view(name));
    if (found != node.attributes.end()) fused.attributes.insert(*found);
  }
  if (node.inputs.size() < 3 || node.inputs[2] < 0) return fused;
  if (FloatAttribute(node, "beta", 1.0f) != 1.0f || !AddToProduct(graph, node.inputs[2], node.outputs[0], fused)) {
    return std::nullopt;
  }
  return fused;
}

bool IsPlainProduct(const ir::Node& node) {
  for (const char* name : {"transA", "transBatchA", "transBatchB"}) {
    if (IntAttribute(node, name, 0) != 0) return false;
  }
  return FloatAttribute(node, "alpha", 1.0f) == 1.0f;
}

bool AddToProduct(const ir::Graph& graph, int summand, int product, ir::Node& fused) {
  const bool is_bias = IsVectorOfLast(graph, summand, product);
  if (!is_bias && !graph.SameDims(summand, product)) return false;
  const size_t place = is_bias ? kProductBias : kProductResidual;
  if (fused.inputs[place] >= 0) return false;
  fused.inputs[place] = summand;
  return true;
}

}  // namespace cudaep::graph
