#include "graph/pass/conv_affine.h"

#include <algorithm>
#include <cmath>

#include "core/data_type_traits.h"
#include "core/float16.h"
#include "graph/ir/constants.h"
#include "graph/pass/batch_norm.h"
#include "graph/pass/rewrite.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

using Numbers = std::vector<double>;

// y = scale * x + shift, for each channel.
struct Affine {
  Numbers scale, shift;
};

bool IsNorm(const ir::Node& node) { return node.Is("BatchNormalization"); }

// Of a constant that has one value a channel of an image, or one for all.
std::optional<Numbers> PerChannel(const ir::Graph& graph, int value, size_t channels, int rank) {
  auto numbers = ir::NumbersOf(graph, value);
  if (!numbers) return std::nullopt;
  const Dims dims = graph.value(value).constant.dims();
  if (static_cast<int>(dims.size()) > rank) return std::nullopt;
  if (numbers->size() == 1) return Numbers(channels, numbers->front());
  const auto at = static_cast<int>(dims.size()) - (rank - 1);  // of the channels
  if (numbers->size() != channels || at < 0 || dims[static_cast<size_t>(at)] != static_cast<int64_t>(channels)) {
    return std::nullopt;
  }
  return numbers;
}

std::optional<Affine> AffineOf(const ir::Graph& graph, const ir::Node& node, int value, size_t channels, int rank,
                               const Settings& settings) {
  if (IsNorm(node)) {
    auto norm = node.inputs[0] == value ? BatchNormOf(graph, node, settings) : std::nullopt;
    if (!norm || norm->mean.size() != channels) return std::nullopt;
    for (size_t c = 0; c < channels; ++c) norm->bias[c] -= norm->mean[c] * norm->factor[c];
    return Affine{std::move(norm->factor), std::move(norm->bias)};
  }
  const bool multiplies = node.Is("Mul"), subtracts = node.Is("Sub");
  if (!multiplies && !subtracts && !node.Is("Add")) return std::nullopt;
  const int other = node.inputs[0] == value ? node.inputs[1] : node.inputs[0];
  if (subtracts && node.inputs[0] != value) return std::nullopt;
  auto numbers = PerChannel(graph, other, channels, rank);
  if (!numbers) return std::nullopt;
  if (multiplies) return Affine{std::move(*numbers), Numbers(channels, 0)};
  for (double& number : *numbers) number = subtracts ? -number : number;
  return Affine{Numbers(channels, 1), std::move(*numbers)};
}

// Whether what the type makes of a channel's weights keeps its digits: the largest is a normal number.
bool Keeps(DataType type, double largest) {
  if (largest == 0) return true;
  const auto in_range = [&]<class T>() {
    const double rounded = static_cast<double>(Load(Store<T>(static_cast<ComputeType<T>>(largest))));
    return std::isfinite(rounded);
  };
  const double least = type == DataType::kFloat16 ? 0x1p-14 : 0x1p-126;
  return largest >= least && VisitType<kFloatTypes>(type, false, in_range);
}

struct Weights {
  Numbers filters, bias;
};

std::optional<Weights> WeightsOf(const ir::Graph& graph, const ir::Node& conv, size_t channels) {
  const bool has_bias = conv.inputs.size() > 2 && conv.inputs[2] >= 0;
  auto filters = ir::NumbersOf(graph, conv.inputs[1]);
  auto bias = has_bias ? ir::NumbersOf(graph, conv.inputs[2]) : Numbers();
  if (!filters || !bias) return std::nullopt;
  bias->resize(channels, 0);
  return Weights{*std::move(filters), *std::move(bias)};
}

// False, with everything as it was, where a number would leave the type's range.
bool Apply(const Affine& affine, DataType type, Weights& weights) {
  auto& [filters, bias] = weights;
  const size_t each = filters.size() / bias.size();
  for (size_t c = 0; c < bias.size(); ++c) {
    double largest = 0;
    for (size_t i = 0; i < each; ++i) largest = std::max(largest, std::abs(filters[c * each + i]));
    const double shifted = std::abs(bias[c] * affine.scale[c] + affine.shift[c]);
    const bool vanishes = affine.scale[c] == 0;  // to 0, whatever Inf would have made of it
    if (vanishes || !Keeps(type, largest * std::abs(affine.scale[c])) || !Keeps(type, std::max(shifted, 1.0))) {
      return false;
    }
  }
  for (size_t c = 0; c < bias.size(); ++c) {
    for (size_t i = 0; i < each; ++i) filters[c * each + i] *= affine.scale[c];
    bias[c] = bias[c] * affine.scale[c] + affine.shift[c];
  }
  return true;
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
  std::optional<Weights> weights;  // in double, many times their bytes: read once there is something to fold
  int last = index;
  while (true) {
    const int value = rewrite.node(last).outputs[0], next = rewrite.match.uses().OnlyReader(value);
    if (next < 0) {
      MissNormOf(rewrite, last);
      break;
    }
    const auto channels = static_cast<size_t>(dims[0]);
    const auto affine = AffineOf(graph, rewrite.node(next), value, channels, dims.rank(), rewrite.settings());
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
  folded.inputs = {conv.inputs[0], graph.AddConstant(name, ir::MakeNumbers(type, dims, weights->filters)),
                   graph.AddConstant(name, ir::MakeNumbers(type, Shape{dims[0]}, weights->bias))};
  rewrite.Replace(last, std::move(folded));
}

}  // namespace

void FoldIntoConvolutions(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kConvAffine);
  for (int n = 0; n < rewrite.node_count(); ++n) Fold(rewrite, n);
}

}  // namespace cudaep::graph
