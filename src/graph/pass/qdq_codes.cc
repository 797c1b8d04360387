#include "graph/pass/qdq_codes.h"

#include <algorithm>
#include <map>

#include "graph/ir/constants.h"
#include "graph/pass/pass.h"
#include "graph/pass/quantization.h"

namespace cudaep::graph {
namespace {

constexpr int32_t kOffset = 128;  // between a code of uint8 and the int8 in its place

std::optional<ops::HostTensor> Dequantized(const ir::Graph& graph, const Quantization& linear) {
  const auto codes = CodesOf(graph, linear.codes);
  if (!codes) return std::nullopt;
  const Dims dims = graph.value(linear.codes).constant.dims();
  const size_t places = linear.scales.size();
  const auto inner = linear.is_uniform() ? size_t{1} : static_cast<size_t>(ElementCount(dims.subspan(linear.axis + 1)));
  if (!linear.is_uniform() && static_cast<int64_t>(places) != dims[linear.axis]) return std::nullopt;
  std::vector<double> reals;
  reals.reserve(codes->size());
  for (size_t i = 0; i < codes->size(); ++i) {
    const size_t place = linear.is_uniform() ? 0 : i / inner % places;
    const int64_t difference = int64_t{(*codes)[i]} - linear.zeros[place];
    reals.push_back(static_cast<float>(difference) * linear.scales[place]);
  }
  return ir::MakeNumbers(graph.value(linear.real).type, Shape(dims), reals);
}

// In place of what nodes make of constants. `takes` says whether a node is meant, by what it dequantizes.
template <class Takes>
void Dequantize(ir::Graph& graph, Takes takes) {
  std::map<int, int> constants;
  for (const ir::Node& node : graph.nodes) {
    const auto linear = QuantizationOf(graph, node, "DequantizeLinear");
    if (!linear || !graph.value(linear->codes).is_constant() || graph.value(linear->real).output >= 0) continue;
    if (!takes(*linear)) continue;
    if (auto reals = Dequantized(graph, *linear)) {
      constants[linear->real] = graph.AddConstant(graph.value(linear->real).name, *std::move(reals));
    }
  }
  for (ir::Node& node : graph.nodes) {
    for (int& input : node.inputs) {
      if (const auto found = constants.find(input); found != constants.end()) input = found->second;
    }
  }
  RemoveDeadNodes(graph);
}

class Signer {
 public:
  explicit Signer(ir::Graph& graph) : graph_(graph), uses_(graph) {}

  void Run() {
    for (size_t v = 0; v < uses_count_; ++v) {
      const int value = static_cast<int>(v);
      if (graph_.value(value).type == DataType::kUint8 && MayChange(value)) Change(value);
    }
  }

 private:
  bool MayChange(int value) const {
    const ir::Value& codes = graph_.value(value);
    const int maker = uses_.producer(value);
    if (codes.output >= 0 || codes.input >= 0 || uses_.readers(value).empty()) return false;
    if (!codes.is_constant() && (maker < 0 || !QuantizationOf(graph_, Node(maker), "QuantizeLinear"))) return false;
    return std::ranges::all_of(uses_.readers(value), [&](const ir::Uses::Use& use) {
      return Node(use.node).Is("Shape") ||
             (use.input == 0 && QuantizationOf(graph_, Node(use.node), "DequantizeLinear").has_value());
    });
  }

  // The constant's readers get another: the same memory may be a constant of other values.
  void Change(int value) {
    int codes = value;
    if (graph_.value(value).is_constant()) {
      const ops::TensorView view = graph_.value(value).constant;
      ops::HostTensor tensor{.type = DataType::kInt8, .dims = Shape(view.dims()), .data = {}};
      const auto bytes = view.host<uint8_t>();
      tensor.data.resize(bytes.size());
      std::ranges::transform(bytes, tensor.data.begin(),
                             [](uint8_t code) { return static_cast<std::byte>(code - kOffset); });
      codes = graph_.AddConstant(graph_.value(value).name, std::move(tensor));
    } else {
      Shift(Node(uses_.producer(value)));
    }
    for (const ir::Uses::Use& use : uses_.readers(value)) {
      if (!Node(use.node).Is("Shape")) Shift(Node(use.node));
      Node(use.node).inputs[static_cast<size_t>(use.input)] = codes;
    }
    if (codes == value) graph_.value(value).type = DataType::kInt8;
  }

  // The zero point, of the scale's dimensions.
  void Shift(ir::Node& node) {
    node.inputs.resize(3, -1);
    const Shape dims(graph_.value(node.inputs[1]).constant.dims());
    const auto zeros = CodesOf(graph_, node.inputs[2]);
    ops::HostTensor tensor{.type = DataType::kInt8, .dims = dims, .data = {}};
    for (size_t i = 0; i < static_cast<size_t>(dims.elems()); ++i) {
      tensor.data.push_back(static_cast<std::byte>((zeros ? (*zeros)[i] : 0) - kOffset));
    }
    node.inputs[2] = graph_.AddConstant(graph_.value(node.inputs[1]).name, std::move(tensor));
    node.attributes.erase("output_dtype");
  }

  ir::Node& Node(int index) { return graph_.nodes[static_cast<size_t>(index)]; }
  const ir::Node& Node(int index) const { return graph_.nodes[static_cast<size_t>(index)]; }

  ir::Graph& graph_;
  const ir::Uses uses_;
  const size_t uses_count_ = graph_.values.size();
};

}  // namespace

void DequantizeVectors(ir::Graph& graph) {
  Dequantize(graph, [&](const Quantization& linear) { return graph.value(linear.codes).constant.rank <= 1; });
}

void DequantizeWeights(ir::Graph& graph) {
  const ir::Uses uses(graph);
  Dequantize(graph, [&](const Quantization& linear) {
    return std::ranges::all_of(uses.readers(linear.real), [&](const ir::Uses::Use& use) {
      const ir::Node& node = graph.nodes[static_cast<size_t>(use.node)];
      return node.Is("Conv") || node.Is("ConvTranspose");
    });
  });
}

void ShareNumbers(ir::Graph& graph) {
  std::map<int, std::vector<Quantization>> known;  // by codes
  std::map<int, int> same;
  for (ir::Node& node : graph.nodes) {
    for (int& input : node.inputs) {
      if (const auto found = same.find(input); found != same.end()) input = found->second;
    }
    const auto linear = QuantizationOf(graph, node, "DequantizeLinear");
    if (!linear || graph.value(linear->real).output >= 0) continue;
    auto& others = known[linear->codes];
    const auto first = std::ranges::find_if(others, [&](const Quantization& other) {
      return other.IsSame(*linear) && graph.value(other.real).type == graph.value(linear->real).type;
    });
    if (first == others.end()) {
      others.push_back(*linear);
    } else {
      same[linear->real] = first->real;
    }
  }
  RemoveDeadNodes(graph);
}

void MakeCodesSigned(ir::Graph& graph) { Signer(graph).Run(); }

}  // namespace cudaep::graph
