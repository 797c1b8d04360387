#include "graph/pass/squeeze_excite.h"

#include <algorithm>
#include <numeric>

#include "graph/pass/activation_match.h"
#include "graph/pass/rewrite.h"
#include "ops/activation_attributes.h"
#include "ops/conv/conv_plan.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

int Input(const ir::Node& node, size_t i) { return i < node.inputs.size() ? node.inputs[i] : -1; }

// The image whose means the value is, a channel's over all pixels; -1: it is no such.
int ImageOf(const Rewriter& rewrite, int means) {
  const ir::Node* const maker = rewrite.match.Maker(means);
  if (maker == nullptr) return -1;
  const int image = Input(*maker, 0);
  if (maker->Is("GlobalAveragePool", ops::kNhwcDomain)) return image;
  const auto& dims = rewrite.graph.value(image).dims;
  if (!maker->Is("ReduceMean") || !dims || dims->size() < 3 || IntAttribute(*maker, "keepdims", 1) == 0) return -1;
  std::vector<int64_t> pixels(dims->size() - 2);
  std::iota(pixels.begin(), pixels.end(), 1);
  auto axes = rewrite.match.IntsOf(*maker, "axes", 1);
  if (!axes) return -1;
  for (int64_t& axis : *axes) axis += axis < 0 ? static_cast<int64_t>(dims->size()) : 0;
  std::ranges::sort(*axes);
  return *axes == pixels ? image : -1;
}

// A convolution of one tap that has its channels last.
const ir::Node* LayerBefore(const Rewriter& rewrite, int value) {
  const ir::Node* const conv = rewrite.match.Maker(value);
  if (conv == nullptr || !conv->Is("Conv", ops::kFusedDomain) || Input(*conv, 3) >= 0) return nullptr;
  if (IntAttribute(*conv, "channels_last", 0) == 0) return nullptr;
  const ir::Value& weights = rewrite.graph.value(conv->inputs[1]);
  const ops::TensorView& w = weights.constant;
  if (!weights.is_constant() || w.rank < 3 || w.elems() != w.dim[0] * w.dim[1]) return nullptr;
  auto parsed = ops::ParseConv(ir::NodeInfo(rewrite.graph, *conv, rewrite.settings()));
  const bool is_plain = parsed.ok() && parsed.value().groups == 1 &&
                        std::ranges::all_of(parsed.value().window.pads, [](int64_t pad) { return pad == 0; });
  return is_plain ? conv : nullptr;
}

void CopyActivation(const ir::Node& from, const std::string& prefix, ir::Node& to) {
  for (const char* name : {"activation", "activation_params"}) {
    const auto found = from.attributes.find(std::string_view(name));
    if (found != from.attributes.end()) to.attributes[prefix + name] = found->second;
  }
}

void Fuse(const Rewriter& rewrite, int index) {
  const ir::Node& product = rewrite.node(index);
  if (product.on_host || !product.Is("Mul")) return;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const int x = product.inputs[1 - side], gates = product.inputs[side];
    const ir::Node* const excite = LayerBefore(rewrite, gates);
    const ir::Node* const squeeze = excite == nullptr ? nullptr : LayerBefore(rewrite, excite->inputs[0]);
    if (squeeze == nullptr || ImageOf(rewrite, squeeze->inputs[0]) != x || x < 0) continue;
    if (!rewrite.graph.SameDims(x, product.outputs[0])) {
      return rewrite.Miss(index, "the product is not stated to have the image's dimensions");
    }
    for (const int between : {gates, excite->inputs[0], squeeze->inputs[0]}) {
      if (!rewrite.match.IsPrivate(between)) return rewrite.Miss(index, "others read what lies between, too");
    }
    ir::Node fused = rewrite.Instead(index, ops::kFusedDomain, "SqueezeExcite", 1);
    fused.inputs = {x, squeeze->inputs[1], Input(*squeeze, 2), excite->inputs[1], Input(*excite, 2)};
    CopyActivation(*squeeze, "squeeze_", fused);
    CopyActivation(*excite, "", fused);
    rewrite.Replace(index, std::move(fused));
    return;
  }
}

}  // namespace

void FuseSqueezeExcite(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kSqueezeExcite);
  for (int n = 0; n < rewrite.node_count(); ++n) Fuse(rewrite, n);
}

}  // namespace cudaep::graph
