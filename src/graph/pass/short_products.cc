#include "graph/pass/short_products.h"

#include <algorithm>

#include "graph/pass/fused_product.h"
#include "ops/gemm/short_product.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

bool TakesOwnWeights(const ir::Node& node) {
  return node.Is("MatMul", ops::kFusedDomain) || node.Is("Attention", ops::kMicrosoftDomain);
}

// Whether the model states more rows than a short product has.
bool HasManyRows(const std::vector<ir::Dim>& a) {
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < a.size(); ++d) {
    if (!a[d].known() || a[d].size == 0) return false;
    rows *= std::min(a[d].size, ops::kMostShortRows + 1);
    if (rows > ops::kMostShortRows) return true;
  }
  return false;
}

bool IsCandidate(const Rewriter& rewrite, const ir::Node& node) {
  if (node.on_host || !(node.Is("MatMul") || node.Is("Gemm") || TakesOwnWeights(node))) return false;
  const ir::Value &a = rewrite.graph.value(node.inputs[0]), &b = rewrite.graph.value(node.inputs[1]);
  if (!b.is_constant() || rewrite.match.uses().readers(node.inputs[1]).size() != 1) return false;
  for (const char* name : {"transA", "transBatchA", "transBatchB"}) {
    if (IntAttribute(node, name, 0) != 0) return false;
  }
  return ops::FitShort(b.type, b.constant.dims()) && a.dims && !HasManyRows(*a.dims) &&
         FloatAttribute(node, "alpha", 1.0f) == 1.0f;
}

}  // namespace

void MarkShortProducts(ir::Graph& graph, const PassContext& context) {
  if (!ops::MayBeShort(context.settings)) return;
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
