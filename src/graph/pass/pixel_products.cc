#include "graph/pass/pixel_products.h"

#include <algorithm>
#include <cstring>

#include "graph/pass/activation_match.h"
#include "graph/pass/rewrite.h"
#include "ops/activation_attributes.h"
#include "ops/conv/conv_plan.h"
#include "ops/gemm/short_product.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

constexpr size_t kImage = 0, kWeights = 1, kBias = 2, kResidual = 3;

// Of an image with its channels last.
bool HasOnePixel(const ir::Value& image) {
  return image.dims && image.dims->size() > 2 &&
         std::all_of(image.dims->begin() + 1, image.dims->end() - 1, [](const ir::Dim& dim) { return dim.size == 1; });
}

bool IsPixelProduct(const Rewriter& rewrite, const ir::Node& node) {
  if (node.on_host || !node.Is("Conv", ops::kFusedDomain) || IntAttribute(node, "channels_last", 0) == 0) return false;
  const ir::Graph& graph = rewrite.graph;
  const ops::TensorView& w = graph.value(node.inputs[kWeights]).constant;
  if (!graph.value(node.inputs[kWeights]).is_constant() || w.rank < 3 || w.elems() != w.dim[0] * w.dim[1]) return false;
  if (!HasOnePixel(graph.value(node.inputs[kImage])) || !HasOnePixel(graph.value(node.outputs[0]))) return false;
  auto conv = ops::ParseConv(ir::NodeInfo(graph, node, rewrite.settings()));
  return conv.ok() && conv->groups == 1 && ops::FitShort(w.type, Shape{w.dim[0], w.dim[1]}) &&
         std::ranges::all_of(conv->window.pads, [](int64_t pad) { return pad == 0; });
}

void Multiply(const Rewriter& rewrite, int index) {
  const ir::Node& conv = rewrite.node(index);
  if (!IsPixelProduct(rewrite, conv)) return;
  ir::Graph& graph = rewrite.graph;
  auto activation = ops::ParseActivation(ir::NodeInfo(graph, conv, rewrite.settings()));
  if (!activation.ok()) return;
  const ir::Value& filters = graph.value(conv.inputs[kWeights]);
  const ops::TensorView& w = filters.constant;
  ops::HostTensor weights{.type = w.type, .dims = Shape{w.dim[0], w.dim[1]}, .data = {}};
  weights.data.resize(w.bytes());
  std::memcpy(weights.data.data(), w.data, w.bytes());
  ir::Node product = rewrite.Instead(index, ops::kFusedDomain, "MatMul", 1);
  product.attributes = {{"transB", int64_t{1}}};
  SetActivation(activation->activation, activation->parameters, product);
  const auto input = [&](size_t i) { return i < conv.inputs.size() ? conv.inputs[i] : -1; };
  const std::string name = filters.name;
  product.inputs = {input(kImage), graph.AddConstant(name, std::move(weights)), input(kBias), input(kResidual)};
  rewrite.Replace(index, std::move(product));
}

}  // namespace

void MultiplyPixels(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kShortProducts);
  for (int n = 0; n < rewrite.node_count(); ++n) Multiply(rewrite, n);
}

}  // namespace cudaep::graph
