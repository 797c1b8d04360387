#include "graph/pass/affine.h"

#include <algorithm>
#include <cmath>

#include "core/data_type_traits.h"
#include "core/float16.h"
#include "graph/ir/constants.h"
#include "graph/pass/batch_norm.h"

namespace cudaep::graph {
namespace {

using Numbers = std::vector<double>;

// Of a constant that has one value a channel, or one for all.
std::optional<Numbers> PerChannel(const ir::Graph& graph, int value, size_t channels, int rank, int behind) {
  if (value < 0 || !graph.value(value).is_constant()) return std::nullopt;
  const ops::TensorView& constant = graph.value(value).constant;
  const Dims dims = constant.dims();
  const auto elements = static_cast<size_t>(constant.elems());
  if (static_cast<int>(dims.size()) > rank || (elements != 1 && elements != channels)) return std::nullopt;
  auto numbers = ir::NumbersOf(graph, value);
  if (!numbers) return std::nullopt;
  if (numbers->size() == 1) return Numbers(channels, numbers->front());
  const auto at = static_cast<int>(dims.size()) - 1 - behind;  // of the channels
  if (at < 0 || dims[static_cast<size_t>(at)] != static_cast<int64_t>(channels)) {
    return std::nullopt;
  }
  return numbers;
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

size_t ChannelOf(const ChannelWeights& weights, size_t i) {
  const size_t channels = weights.bias.size();
  return weights.channels_last ? i % channels : i / (weights.numbers.size() / channels);
}

Numbers LargestOf(const ChannelWeights& weights) {
  Numbers largest(weights.bias.size(), 0);
  for (size_t i = 0; i < weights.numbers.size(); ++i) {
    double& of_channel = largest[ChannelOf(weights, i)];
    of_channel = std::max(of_channel, std::abs(weights.numbers[i]));
  }
  return largest;
}

}  // namespace

std::optional<Affine> AffineOf(const ir::Graph& graph, const ir::Node& node, int value, size_t channels, int rank,
                               int behind, const Settings& settings) {
  if (node.on_host) return std::nullopt;
  if (node.Is("BatchNormalization")) {
    auto norm = node.inputs[0] == value && behind == rank - 2 ? BatchNormOf(graph, node, settings) : std::nullopt;
    if (!norm || norm->mean.size() != channels) return std::nullopt;
    for (size_t c = 0; c < channels; ++c) norm->bias[c] -= norm->mean[c] * norm->factor[c];
    return Affine{std::move(norm->factor), std::move(norm->bias)};
  }
  const bool multiplies = node.Is("Mul"), subtracts = node.Is("Sub");
  if (!multiplies && !subtracts && !node.Is("Add")) return std::nullopt;
  const int other = node.inputs[0] == value ? node.inputs[1] : node.inputs[0];
  if (subtracts && node.inputs[0] != value) return std::nullopt;
  auto numbers = PerChannel(graph, other, channels, rank, behind);
  if (!numbers) return std::nullopt;
  if (multiplies) return Affine{std::move(*numbers), Numbers(channels, 0)};
  for (double& number : *numbers) number = subtracts ? -number : number;
  return Affine{Numbers(channels, 1), std::move(*numbers)};
}

bool AreInRange(DataType type, const ChannelWeights& weights) {
  const Numbers largest = LargestOf(weights);
  return std::ranges::all_of(largest, [&](double weight) { return Keeps(type, weight); }) &&
         std::ranges::all_of(weights.bias, [&](double bias) { return Keeps(type, std::max(std::abs(bias), 1.0)); });
}

bool Apply(const Affine& affine, DataType type, ChannelWeights& weights) {
  // To 0, whatever Inf would have made of it.
  if (std::ranges::find(affine.scale, 0.0) != affine.scale.end()) return false;
  const Numbers largest = LargestOf(weights);
  Numbers bias(weights.bias.size());
  for (size_t c = 0; c < bias.size(); ++c) {
    bias[c] = weights.bias[c] * affine.scale[c] + affine.shift[c];
    if (!Keeps(type, largest[c] * std::abs(affine.scale[c])) || !Keeps(type, std::max(std::abs(bias[c]), 1.0))) {
      return false;
    }
  }
  for (size_t i = 0; i < weights.numbers.size(); ++i) weights.numbers[i] *= affine.scale[ChannelOf(weights, i)];
  weights.bias = std::move(bias);
  return true;
}

}  // namespace cudaep::graph
