#include "graph/pass/gated_products.h"

#include "graph/pass/fused_product.h"
#include "graph/pass/gated_nbits.h"
#include "ops/gemm/short_product.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

void Fuse(const Rewriter& rewrite, int index) {
  const ir::Graph& graph = rewrite.graph;
  const ir::Node& gate = rewrite.node(index);
  if (gate.on_host || !gate.Is("Gated", ops::kFusedDomain)) return;
  const int maker = rewrite.match.MakerIndex(gate.inputs[0]);
  if (maker < 0) return;
  const std::optional<ir::Node> product = AsFusedProduct(rewrite, maker);
  if (!product || product->inputs[kProductResidual] >= 0 || !IsPlainProduct(*product)) return;
  const ir::Value& weights = graph.value(product->inputs[kProductB]);
  if (!weights.is_constant() || !ops::FitShort(weights.type, weights.constant.dims())) return;
  if (!rewrite.match.IsPrivate(gate.inputs[0])) {
    return rewrite.Miss(index, "others read the product that is gated");
  }
  ir::Node fused = rewrite.Instead(index, ops::kFusedDomain, "GatedMatMul", 1);
  fused.inputs = product->inputs;
  fused.inputs.resize(kProductBias + 1);
  fused.attributes = product->attributes;
  fused.attributes.insert({{"gate", gate.attributes.at("activation")}, {"activated", gate.attributes.at("activated")}});
  rewrite.Replace(index, std::move(fused));
}

}  // namespace

void FuseGatedProducts(ir::Graph& graph, const PassContext& context) {
  const bool has_kernel = ops::MayBeShort(context.settings);  // for 16-bit weights and their gate
  const Rewriter rewrite(graph, context, Fusion::kGatedProducts);
  for (int n = 0; n < rewrite.node_count(); ++n) {
    if (has_kernel) Fuse(rewrite, n);
    FuseGatedNBits(rewrite, n);
  }
}

}  // namespace cudaep::graph
