#include "graph/pass/activation_match.h"

#include <cmath>

#include "graph/ir/constants.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

using Found = std::optional<ActivationMatch>;

Found Plain(Activation activation, float a = 0.0f, float b = 0.0f) { return ActivationMatch{activation, {a, b}}; }

// A bound of Clip, `fallback` where there is none; nothing for one that is known in a Run only, or no float.
std::optional<float> BoundOf(const ir::Graph& graph, const ir::NodeInfo& info, const ir::Node& node, int index,
                             const char* attribute, float fallback) {
  if (info.since_version() < 11) return info.FloatOr(attribute, fallback);
  if (!info.has_input(index)) return fallback;
  const auto bound = ir::ScalarOf(graph, node.inputs[static_cast<size_t>(index)]);
  if (!bound || static_cast<double>(static_cast<float>(*bound)) != *bound) return std::nullopt;
  return static_cast<float>(*bound);
}

Found ClipOf(const ir::Graph& graph, const ir::NodeInfo& info, const ir::Node& node) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto least = BoundOf(graph, info, node, 1, "min", -kInfinity);
  const auto most = BoundOf(graph, info, node, 2, "max", kInfinity);
  // The library's form begins at the least; from the most down there is an operator. Crossed bounds are its matter too.
  if (!least || !most || !std::isfinite(*least) || !(*least <= *most)) return std::nullopt;
  if (*least == 0 && *most == kInfinity) return Plain(Activation::kRelu);
  return Plain(Activation::kClip, *least, *most);
}

// Of one node.
Found ActivationOf(const ir::Graph& graph, const ir::Node& node, const Settings& settings) {
  const ir::NodeInfo info(graph, node, settings);
  const bool onnx = node.domain.empty();
  if (onnx && node.op_type == "Relu") return Plain(Activation::kRelu);
  if (onnx && node.op_type == "Sigmoid") return Plain(Activation::kSigmoid);
  if (onnx && node.op_type == "Tanh") return Plain(Activation::kTanh);
  if (onnx && node.op_type == "HardSwish") return Plain(Activation::kHardSwish);
  if (onnx && node.op_type == "Clip") return ClipOf(graph, info, node);
  if (onnx && node.op_type == "LeakyRelu") return Plain(Activation::kLeakyRelu, info.FloatOr("alpha", 0.01f));
  if (onnx && node.op_type == "HardSigmoid") {
    return Plain(Activation::kHardSigmoid, info.FloatOr("alpha", 0.2f), info.FloatOr("beta", 0.5f));
  }
  if (onnx && node.op_type == "Swish" && info.FloatOr("alpha", 1.0f) == 1.0f) return Plain(Activation::kSilu);
  if (onnx && node.op_type == "Gelu") {
    const std::string kind = info.StringOr("approximate", "none");
    if (kind == "none") return Plain(Activation::kGeluErf);
    if (kind == "tanh") return Plain(Activation::kGeluTanh);
  }
  if (node.Is("Gelu", ops::kMicrosoftDomain)) return Plain(Activation::kGeluErf);
  if (node.Is("FastGelu", ops::kMicrosoftDomain) && !info.has_input(1)) return Plain(Activation::kGeluTanh);
  if (node.Is("QuickGelu", ops::kMicrosoftDomain) && info.FloatOr("alpha", 1.702f) == 1.0f) {
    return Plain(Activation::kSilu);
  }
  return std::nullopt;
}

// x gate(x).
Found Gated(const ActivationMatch& gate) {
  if (gate.activation == Activation::kSigmoid) return Plain(Activation::kSilu);
  const bool sixth = std::abs(gate.parameters.a * 6.0f - 1.0f) < 1e-6f && gate.parameters.b == 0.5f;
  if (gate.activation == Activation::kHardSigmoid && sixth) return Plain(Activation::kHardSwish);
  return std::nullopt;
}

}  // namespace

Found MatchActivation(const ir::Graph& graph, const ir::Uses& uses, int value, const Settings& settings) {
  const auto node = [&](int index) -> const ir::Node& { return graph.nodes[static_cast<size_t>(index)]; };
  if (const int only = uses.OnlyReader(value); only >= 0) {
    if (node(only).inputs[0] != value) return std::nullopt;
    Found found = ActivationOf(graph, node(only), settings);
    if (found) found->nodes = {only};
    return found;
  }
  const auto& readers = uses.readers(value);
  if (readers.size() != 2 || graph.value(value).output >= 0) return std::nullopt;
  for (const bool second : {false, true}) {
    const int gate = readers[second ? 1 : 0].node, product = readers[second ? 0 : 1].node;
    const ir::Node &maker = node(gate), &mul = node(product);
    if (gate == product || !mul.Is("Mul") || uses.OnlyReader(maker.outputs[0]) != product) continue;
    const Found single = ActivationOf(graph, maker, settings);
    Found found = single ? Gated(*single) : std::nullopt;
    if (found) found->nodes = {gate, product};
    return found;
  }
  return std::nullopt;
}

Found MatchActivationOf(const Rewriter& rewrite, int value) {
  const ir::Uses& uses = rewrite.match.uses();
  Found found = MatchActivation(rewrite.graph, uses, value, rewrite.settings());
  if (found) return found;
  for (const auto& [reader, input] : uses.readers(value)) {
    const ir::Node& node = rewrite.node(reader);
    if (input != 0 || node.on_host) continue;
    const bool is_known = ActivationOf(rewrite.graph, node, rewrite.settings()).has_value();
    const char* const why = is_known && uses.OnlyReader(value) < 0 ? "others read what it is applied to"
                            : !is_known && node.Is("Clip")         ? "its bounds are not constants in order"
                                                                   : nullptr;
    if (why == nullptr) continue;
    rewrite.Miss(reader, why);
    break;
  }
  return std::nullopt;
}

void SetActivation(Activation activation, ActivationParameters parameters, ir::Node& node) {
  node.attributes["activation"] = std::string(ActivationName(activation));
  std::vector<float> values{parameters.a, parameters.b};
  values.resize(static_cast<size_t>(ParameterCount(activation)));
  if (!values.empty()) node.attributes["activation_params"] = std::move(values);
}

}  // namespace cudaep::graph
