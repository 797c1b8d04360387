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
  auto numbers = ir::NumbersOf(graph, value);
  if (!numbers) return std::nullopt;
  const Dims dims = graph.value(value).constant.dims();
  if (static_cast<int>(dims.size()) > rank) return std::nullopt;
  if (numbers->size() == 1) return Numbers(channels, numbers->front());
  const auto at = static_cast<int>(dims.size()) - 1 - behind;  // of the channels
  if (numbers->size() != channels || at < 0 || dims[static_cast<size_t>(at)] != static_cast<int64_t>(channels)) {
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

bool Apply(const Affine& affine, DataType type, ChannelWeights& weights) {
  auto& [numbers, bias, channels_last] = weights;
  const size_t channels = bias.size(), each = numbers.size() / channels;
  const auto channel_of = [&](size_t i) { return weights.channels_last ? i % channels : i / each; };
  Numbers largest(channels, 0);
  for (size_t i = 0; i < numbers.size(); ++i) {
    largest[channel_of(i)] = std::max(largest[channel_of(i)], std::abs(numbers[i]));
  }
  for (size_t c = 0; c < channels; ++c) {
    const double shifted = std::abs(bias[c] * affine.scale[c] + affine.shift[c]);
    const bool vanishes = affine.scale[c] == 0;  // to 0, whatever Inf would have made of it
    if (vanishes || !Keeps(type, largest[c] * std::abs(affine.scale[c])) || !Keeps(type, std::max(shifted, 1.0))) {
      return false;
    }
  }
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] *= affine.scale[channel_of(i)];
  for (size_t c = 0; c < channels; ++c) bias[c] = bias[c] * affine.scale[c] + affine.shift[c];
  return true;
}

}  // namespace cudaep::graph
