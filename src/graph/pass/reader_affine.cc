#include "graph/pass/reader_affine.h"

#include <algorithm>

#include "graph/ir/constants.h"
#include "graph/pass/affine.h"
#include "graph/pass/batch_norm.h"
#include "graph/pass/rewrite.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

// Beside a picture a convolution sees zeros, not what they would be normalised to.
bool Pads(const ir::Graph& graph, const ir::Node& conv, const Settings& settings) {
  const std::string by_itself = ir::NodeInfo(graph, conv, settings).StringOr("auto_pad", "NOTSET");
  const auto* const pads = ir::FindAttribute<std::vector<int64_t>>(conv, "pads");
  return (by_itself != "NOTSET" && by_itself != "VALID") ||
         (pads != nullptr && std::ranges::any_of(*pads, [](int64_t pad) { return pad != 0; }));
}

// Weights of which each reads one channel of the input.
struct Filters {
  int64_t outputs = 0, groups = 1, per_group = 0, taps = 0;

  size_t channel_of(size_t weight) const {
    const auto i = static_cast<int64_t>(weight);
    return static_cast<size_t>(i / (per_group * taps) / (outputs / groups) * per_group + i / taps % per_group);
  }
};

// Of normalised channels a mean square of bias^2 + (factor deviation)^2 is rounded, and their weights are; without the
// norm the weights alone, beside one of factor^2 (mean^2 + deviation^2).
bool RoundsAsLittle(const Filters& filters, const std::vector<double>& weights, const BatchNorm& norm) {
  double normalised = 0, plain = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const size_t c = filters.channel_of(i);
    const double weight = weights[i] * weights[i];
    const double spread = norm.factor[c] * norm.factor[c] * norm.variance[c];
    const double mean = norm.factor[c] * norm.mean[c];
    normalised += 2 * weight * (norm.bias[c] * norm.bias[c] + spread);
    plain += weight * (mean * mean + spread);
  }
  return plain <= normalised;
}

void Fold(const Rewriter& rewrite, int index) {
  ir::Graph& graph = rewrite.graph;
  const ir::Node& node = rewrite.node(index);
  const int reader = node.Is("BatchNormalization") ? rewrite.match.uses().OnlyReader(node.outputs[0]) : -1;
  if (reader < 0) return;
  const ir::Node& conv = rewrite.node(reader);
  const bool reads = conv.Is("Conv") && !conv.on_host && !rewrite.IsTaken(reader) && conv.inputs[0] == node.outputs[0];
  if (!reads || Pads(graph, conv, rewrite.settings())) return;
  const int w = conv.inputs[1], b = InputOf(conv, 2);
  const ops::TensorView constant = graph.value(w).constant;  // a copy: values move when constants are added
  const auto norm = BatchNormOf(graph, node, rewrite.settings());
  auto weights = ir::NumbersOf(graph, w);
  if (!norm || !weights || weights->empty() || constant.rank < 3) return;
  const Shape dims(constant.dims());
  Filters filters{.outputs = dims[0], .groups = IntAttribute(conv, "group", 1), .per_group = dims[1]};
  filters.taps = static_cast<int64_t>(weights->size()) / (filters.outputs * filters.per_group);
  auto bias = b >= 0 ? ir::NumbersOf(graph, b) : std::vector<double>(static_cast<size_t>(filters.outputs), 0);
  const bool fits = filters.groups > 0 && filters.outputs % filters.groups == 0 &&
                    filters.groups * filters.per_group == static_cast<int64_t>(norm->mean.size());
  if (!bias || static_cast<int64_t>(bias->size()) != filters.outputs || !fits) return;
  if (!RoundsAsLittle(filters, *weights, *norm)) {
    return rewrite.Miss(index, "means that far from 0 would cost the convolution's weights their digits");
  }
  const size_t each = weights->size() / bias->size();
  for (size_t i = 0; i < weights->size(); ++i) {
    const size_t c = filters.channel_of(i);
    (*bias)[i / each] += (*weights)[i] * (norm->bias[c] - norm->mean[c] * norm->factor[c]);
    (*weights)[i] *= norm->factor[c];
  }
  if (!AreInRange(constant.type, {*weights, *bias})) {
    return rewrite.Miss(index, "a channel's weights would vanish or leave their type's range");
  }
  ir::Node folded = rewrite.Instead(reader, ops::kOnnxDomain, "Conv", conv.since_version);
  folded.attributes = conv.attributes;
  const std::string name = graph.value(w).name;
  folded.inputs = {node.inputs[0], graph.AddConstant(name, ir::MakeNumbers(constant.type, dims, *weights)),
                   graph.AddConstant(name, ir::MakeNumbers(constant.type, Shape{dims[0]}, *bias))};
  rewrite.Replace(reader, std::move(folded));
}

}  // namespace

void FoldIntoReaders(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kConvAffine);
  for (int n = 0; n < rewrite.node_count(); ++n) Fold(rewrite, n);
}

}  // namespace cudaep::graph
