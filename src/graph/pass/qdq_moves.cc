#include "graph/pass/qdq_moves.h"

#include <algorithm>

#include "graph/pass/quantization.h"
#include "graph/pass/rewrite.h"

namespace cudaep::graph {

bool MovesElements(const ir::Node& node) {
  static constexpr std::string_view kMovers[] = {"DepthToSpace", "Expand",  "Flatten",   "Gather",
                                                 "Identity",     "Reshape", "Slice",     "SpaceToDepth",
                                                 "Squeeze",      "Tile",    "Transpose", "Unsqueeze"};
  if (node.on_host || !node.domain.empty() || node.outputs.size() != 1) return false;
  if (node.op_type == "MaxPool") return node.since_version >= 12;  // of bytes from then on
  return std::ranges::find(kMovers, node.op_type) != std::end(kMovers);
}

namespace {

class Mover {
 public:
  explicit Mover(Rewriter& rewrite) : rewrite_(rewrite), graph_(rewrite.graph), same_(graph_.values.size(), -1) {}

  void Run() {
    FindWanted();
    for (int n = 0; n < rewrite_.node_count(); ++n) Visit(n);
    rewrite_.PlaceNodesInFront();
    for (ir::Node& node : graph_.nodes) {
      for (int& input : node.inputs) {
        if (input >= 0) input = Same(input);
      }
    }
  }

 private:
  static size_t Index(int value) { return static_cast<size_t>(value); }
  // What passes added is itself.
  int Same(int value) const {
    return Index(value) < same_.size() && same_[Index(value)] >= 0 ? same_[Index(value)] : value;
  }

  // Values that somebody reads as codes would be, perhaps when they have moved.
  void FindWanted() {
    wanted_.resize(graph_.values.size());
    for (int n = rewrite_.node_count(); n-- > 0;) {
      const ir::Node& node = rewrite_.node(n);
      if (node.on_host || node.inputs.empty() || node.inputs[0] < 0) continue;
      const bool multiplies = node.Is("MatMul") || node.Is("Gemm") || node.Is("Conv");
      const bool moves = MovesElements(node) && wanted_[Index(node.outputs[0])] != 0;
      if (multiplies || moves || QuantizationOf(graph_, node, "QuantizeLinear")) wanted_[Index(node.inputs[0])] = 1;
      if (multiplies && node.inputs[1] >= 0) wanted_[Index(node.inputs[1])] = 1;
    }
  }

  void Visit(int n) {
    const ir::Node& node = rewrite_.node(n);
    if (const auto quantized = QuantizationOf(graph_, node, "QuantizeLinear")) {
      const auto before = DequantizedBy(quantized->real);
      const bool leaves = graph_.value(quantized->codes).output >= 0;
      if (before && !leaves && before->linear.IsSame(*quantized)) {
        same_[Index(quantized->codes)] = Same(before->linear.codes);
      }
      return;
    }
    if (!MovesElements(node) || wanted_[Index(node.outputs[0])] == 0) return;
    if (const auto before = DequantizedBy(node.inputs[0])) Move(n, *before->node, before->linear);
  }

  std::optional<CodedValue> DequantizedBy(int value) const {
    auto coded = CodedValueOf(graph_, rewrite_.match, value);
    return coded && coded->linear.is_uniform() ? coded : std::nullopt;
  }

  void Move(int n, const ir::Node& dequantize, const Quantization& linear) {
    ir::Node moved = rewrite_.node(n);
    const ir::Value& result = graph_.value(moved.outputs[0]);
    ir::Node after = rewrite_.Instead(n, dequantize.domain.c_str(), "DequantizeLinear", dequantize.since_version);
    after.inputs = dequantize.inputs;
    after.attributes = dequantize.attributes;
    moved.inputs[0] = Same(linear.codes);
    moved.outputs = {graph_.AddValue({.name = result.name, .type = linear.type, .dims = result.dims})};
    after.inputs[0] = moved.outputs[0];
    rewrite_.Replace(n, std::move(after), {std::move(moved)});
  }

  Rewriter& rewrite_;
  ir::Graph& graph_;
  std::vector<int> same_;  // codes in place of others; -1: they stay
  std::vector<uint8_t> wanted_;
};

}  // namespace

void MoveCodes(ir::Graph& graph, const PassContext& context) {
  Rewriter rewrite(graph, context, Fusion::kQdq);
  Mover(rewrite).Run();
}

}  // namespace cudaep::graph
