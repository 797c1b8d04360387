#include "graph/pass/conv_affine.h"

#include "graph/ir/constants.h"
#include "graph/pass/affine.h"
#include "graph/pass/product_affine.h"
#include "graph/pass/reader_affine.h"
#include "graph/pass/rewrite.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

bool IsNorm(const ir::Node& node) { return node.Is("BatchNormalization"); }

std::optional<ChannelWeights> WeightsOf(const ir::Graph& graph, const ir::Node& conv, size_t channels) {
  const bool has_bias = conv.inputs.size() > 2 && conv.inputs[2] >= 0;
  auto filters = ir::NumbersOf(graph, conv.inputs[1]);
  auto bias = has_bias ? ir::NumbersOf(graph, conv.inputs[2]) : std::vector<double>();
  if (!filters || !bias) return std::nullopt;
  bias->resize(channels, 0);
  return ChannelWeights{*std::move(filters), *std::move(bias)};
}

// Of a convolution that a normalisation follows, and others too.
void MissNormOf(const Rewriter& rewrite, int index) {
  for (const auto& [reader, input] : rewrite.match.uses().readers(rewrite.node(index).outputs[0])) {
    if (input == 0 && IsNorm(rewrite.node(reader))) return rewrite.Miss(reader, "others read what it normalises");
  }
}

void Fold(const Rewriter& rewrite, int index) {
  ir::Graph& graph = rewrite.graph;
  const ir::Node& conv = rewrite.node(index);
  if (conv.on_host || !conv.Is("Conv") || rewrite.IsTaken(index)) return;
  const int w = conv.inputs[1];
  const ops::TensorView& filters = graph.value(w).constant;
  if (!filters.present() || filters.rank < 3 || filters.elems() == 0) return;
  const Shape dims(filters.dims());
  const DataType type = filters.type;
  std::optional<ChannelWeights> weights;  // in double, many times their bytes: read once there is something to fold
  int last = index;
  while (true) {
    const int value = rewrite.node(last).outputs[0], next = rewrite.match.uses().OnlyReader(value);
    if (next < 0) {
      MissNormOf(rewrite, last);
      break;
    }
    const auto channels = static_cast<size_t>(dims[0]);
    const auto affine =
        AffineOf(graph, rewrite.node(next), value, channels, dims.rank(), dims.rank() - 2, rewrite.settings());
    if (!affine) {
      if (IsNorm(rewrite.node(next))) rewrite.Miss(next, "it trains, or its numbers are not a constant each channel");
      break;
    }
    if (!weights) weights = WeightsOf(graph, conv, channels);
    if (!weights || !Apply(*affine, type, *weights)) {
      rewrite.Miss(next, weights ? "a channel's weights would vanish or leave their type's range"
                                 : "the convolution's bias is no constant");
      break;
    }
    last = next;
  }
  if (last == index) return;
  ir::Node folded = rewrite.Instead(index, ops::kOnnxDomain, "Conv", conv.since_version);
  folded.attributes = conv.attributes;
  folded.outputs = rewrite.node(last).outputs;
  const std::string name = graph.value(w).name;
  folded.inputs = {conv.inputs[0], graph.AddConstant(name, ir::MakeNumbers(type, dims, weights->numbers)),
                   graph.AddConstant(name, ir::MakeNumbers(type, Shape{dims[0]}, weights->bias))};
  rewrite.Replace(last, std::move(folded));
}

}  // namespace

void FoldIntoConvolutions(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kConvAffine);
  for (int n = 0; n < rewrite.node_count(); ++n) Fold(rewrite, n);
  RemoveDeadNodes(graph);
  FoldIntoReaders(graph, context);
  RemoveDeadNodes(graph);
  FoldIntoProducts(graph, context);
}

}  // namespace cudaep::graph
