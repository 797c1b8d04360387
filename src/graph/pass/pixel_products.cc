#include "graph/pass/pixel_products.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "graph/pass/activation_match.h"
#include "graph/pass/one_tap.h"
#include "graph/pass/rewrite.h"
#include "ops/activation_attributes.h"
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

// Whether a product does all that the convolution says, which may have parts of images and a sum behind its activation.
bool IsProduct(const ir::Node& conv) {
  constexpr std::string_view kKnown[] = {"kernel_shape", "strides",       "pads",       "dilations",        "auto_pad",
                                         "group",        "channels_last", "activation", "activation_params"};
  return std::ranges::all_of(conv.attributes, [&](const auto& attribute) {
    return std::ranges::find(kKnown, attribute.first) != std::end(kKnown);
  });
}

// The weights where it is one; null otherwise.
const ops::TensorView* WeightsOfProduct(const Rewriter& rewrite, const ir::Node& node) {
  const ir::Graph& graph = rewrite.graph;
  const ops::TensorView* const w = OneTapWeights(graph, node, rewrite.settings());
  if (w == nullptr || IntAttribute(node, "channels_last", 0) == 0 || !IsProduct(node)) return nullptr;
  const ir::Value& image = graph.value(node.inputs[kImage]);
  if (!HasOnePixel(image) || !HasOnePixel(graph.value(node.outputs[0]))) return nullptr;
  const bool is_short = ops::FitShort(w->type, Shape{w->dim[0], w->dim[1]}) &&
                        !ops::HasManyRows(*ir::NodeInfo(graph, node, rewrite.settings()).input_dims(kImage));
  return is_short ? w : nullptr;
}

void Multiply(const Rewriter& rewrite, int index) {
  const ir::Node& conv = rewrite.node(index);
  const ops::TensorView* const w = WeightsOfProduct(rewrite, conv);
  if (w == nullptr) return;
  ir::Graph& graph = rewrite.graph;
  auto activation = ops::ParseActivation(ir::NodeInfo(graph, conv, rewrite.settings()));
  if (!activation.ok()) return;
  ops::HostTensor weights{.type = w->type, .dims = Shape{w->dim[0], w->dim[1]}, .data = {}};
  weights.data.resize(w->bytes());
  std::memcpy(weights.data.data(), w->data, w->bytes());
  ir::Node product = rewrite.Instead(index, ops::kFusedDomain, "MatMul", 1);
  product.attributes = {{"transB", int64_t{1}}};
  SetActivation(activation->activation, activation->parameters, product);
  const auto input = [&](size_t i) { return i < conv.inputs.size() ? conv.inputs[i] : -1; };
  const std::string name = graph.value(conv.inputs[kWeights]).name;
  product.inputs = {input(kImage), graph.AddConstant(name, std::move(weights)), input(kBias), input(kResidual)};
  rewrite.Replace(index, std::move(product));
}

}  // namespace

void MultiplyPixels(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kShortProducts);
  for (int n = 0; n < rewrite.node_count(); ++n) Multiply(rewrite, n);
}

}  // namespace cudaep::graph
