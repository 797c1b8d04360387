#include "graph/pass/short_products.h"

#include "graph/pass/fused_product.h"
#include "graph/pass/pixel_products.h"
#include "ops/gemm/short_product.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

bool TakesOwnWeights(const ir::Node& node) {
  return node.Is("MatMul", ops::kFusedDomain) || node.Is("GatedMatMul", ops::kFusedDomain) ||
         node.Is("Attention", ops::kMicrosoftDomain);
}

bool PacksManyRows(const ir::Node& node) {
  if (node.Is("GatedMatMul", ops::kFusedDomain)) return true;
  if (!node.Is("MatMul", ops::kFusedDomain)) return false;
  const auto* const name = ir::FindAttribute<std::string>(node, "activation");
  const auto activation = ActivationFromName(name == nullptr ? "none" : *name);
  const bool residual = InputOf(node, kProductResidual) >= 0;
  return activation && ops::PacksManyRows(*activation, residual);
}

bool IsCandidate(const Rewriter& rewrite, const ir::Node& node) {
  if (node.on_host || !(node.Is("MatMul") || node.Is("Gemm") || TakesOwnWeights(node))) return false;
  const ir::Value& b = rewrite.graph.value(node.inputs[1]);
  if (!b.is_constant() || rewrite.match.uses().readers(node.inputs[1]).size() != 1) return false;
  const auto rows = ir::NodeInfo(rewrite.graph, node, rewrite.settings()).input_dims(0);
  return IsPlainProduct(node) && ops::FitShort(b.type, b.constant.dims()) && rows &&
         (PacksManyRows(node) || !ops::HasManyRows(*rows));
}

}  // namespace

void MarkShortProducts(ir::Graph& graph, const PassContext& context) {
  if (!ops::MayBeShort(context.settings)) return;
  MultiplyPixels(graph, context);
  const Rewriter rewrite(graph, context, Fusion::kShortProducts);
  for (int n = 0; n < rewrite.node_count(); ++n) {
    ir::Node& node = rewrite.node(n);
    if (!IsCandidate(rewrite, node)) continue;
    if (TakesOwnWeights(node)) {
      node.attributes["own_weights"] = int64_t{1};
    } else if (std::optional<ir::Node> fused = AsFusedProduct(rewrite, n)) {
      fused->attributes["own_weights"] = int64_t{1};
      rewrite.Replace(n, *std::move(fused));
    }
  }
}

}  // namespace cudaep::graph
