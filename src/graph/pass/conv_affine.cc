#include "graph/pass/conv_affine.h"

#include <algorithm>
#include <cmath>

#include "core/data_type_traits.h"
#include "core/float16.h"
#include "graph/pass/constants.h"

namespace cudaep::graph {
namespace {

using Numbers = std::vector<double>;

// y = scale * x + shift, for each channel.
struct Affine {
  Numbers scale, shift;
};

// Of a constant that has one value a channel of an image, or one for all.
std::optional<Numbers> PerChannel(const ir::Graph& graph, int value, size_t channels, int rank) {
  auto numbers = NumbersOf(graph, value);
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
  const ir::NodeInfo info(graph, node, settings);
  if (node.Is("BatchNormalization")) {
    const bool trains = info.has_output(1) || info.BoolOr("training_mode", false) || !info.BoolOr("spatial", true);
    Numbers values[4];
    for (size_t i = 0; i < 4; ++i) {
      auto read = NumbersOf(graph, node.inputs[i + 1]);
      if (!read || read->size() != channels) return std::nullopt;
      values[i] = std::move(*read);
    }
    if (trains || node.inputs[0] != value) return std::nullopt;
    Affine affine{Numbers(channels), Numbers(channels)};
    for (size_t c = 0; c < channels; ++c) {
      affine.scale[c] = values[0][c] / std::sqrt(values[3][c] + static_cast<double>(info.FloatOr("epsilon", 1e-5f)));
      affine.shift[c] = values[1][c] - values[2][c] * affine.scale[c];
    }
    return affine;
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

class Folder {
 public:
  Folder(ir::Graph& graph, const PassContext& context) : graph_(graph), context_(context), uses_(graph), gone_(graph) {}

  void Run() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (graph_.nodes[n].Is("Conv") && !graph_.nodes[n].on_host) Fold(n);
    }
    gone_.Apply(graph_);
  }

 private:
  void Fold(size_t n) {
    const ir::Node& conv = graph_.nodes[n];
    auto weights = NumbersOf(graph_, conv.inputs[1]);
    const bool has_bias = conv.inputs.size() > 2 && conv.inputs[2] >= 0;
    auto bias = has_bias ? NumbersOf(graph_, conv.inputs[2]) : Numbers();
    if (!weights || !bias) return;
    const ops::TensorView view = graph_.value(conv.inputs[1]).constant;
    if (view.rank < 3 || weights->empty()) return;
    const auto channels = static_cast<size_t>(view.dim[0]);
    bias->resize(channels, 0);
    std::vector<int> joined;
    int value = conv.outputs[0];
    while (true) {
      const int next = uses_.OnlyReader(value);
      if (next < 0) break;
      const ir::Node& node = graph_.nodes[static_cast<size_t>(next)];
      const auto affine = AffineOf(graph_, node, value, channels, view.rank, context_.settings);
      if (!affine || !Apply(*affine, view.type, *weights, *bias)) break;
      joined.push_back(next);
      value = node.outputs[0];
    }
    if (!joined.empty()) Replace(n, joined, *weights, *bias);
  }

  // False, with everything as it was, where a number would leave the type's range.
  static bool Apply(const Affine& affine, DataType type, Numbers& weights, Numbers& bias) {
    const size_t each = weights.size() / bias.size();
    for (size_t c = 0; c < bias.size(); ++c) {
      double largest = 0;
      for (size_t i = 0; i < each; ++i) largest = std::max(largest, std::abs(weights[c * each + i]));
      const double shifted = std::abs(bias[c] * affine.scale[c] + affine.shift[c]);
      const bool vanishes = affine.scale[c] == 0;  // to 0, whatever Inf would have made of it
      if (vanishes || !Keeps(type, largest * std::abs(affine.scale[c])) || !Keeps(type, std::max(shifted, 1.0))) {
        return false;
      }
    }
    for (size_t c = 0; c < bias.size(); ++c) {
      for (size_t i = 0; i < each; ++i) weights[c * each + i] *= affine.scale[c];
      bias[c] = bias[c] * affine.scale[c] + affine.shift[c];
    }
    return true;
  }

  void Replace(size_t n, const std::vector<int>& joined, const Numbers& weights, const Numbers& bias) {
    const int old = graph_.nodes[n].inputs[1];
    const DataType type = graph_.value(old).type;
    const Shape dims(graph_.value(old).constant.dims());
    const std::string name = graph_.value(old).name;
    ir::Node& conv = graph_.nodes[n];
    conv.inputs.resize(3, -1);
    conv.inputs[1] = graph_.AddConstant(name, MakeNumbers(type, dims, weights));
    conv.inputs[2] = graph_.AddConstant(name, MakeNumbers(type, Shape{dims[0]}, bias));
    for (const int index : joined) {
      const ir::Node& node = graph_.nodes[static_cast<size_t>(index)];
      conv.sources.insert(conv.sources.end(), node.sources.begin(), node.sources.end());
      conv.outputs = {node.outputs[0]};
      gone_.Mark(index);
    }
    context_.notes.push_back({Fusion::kConvAffine, conv.sources});
  }

  ir::Graph& graph_;
  const PassContext& context_;
  const ir::Uses uses_;
  NodeRemoval gone_;
};

}  // namespace

void FoldIntoConvolutions(ir::Graph& graph, const PassContext& context) { Folder(graph, context).Run(); }

}  // namespace cudaep::graph
