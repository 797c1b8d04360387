#include "graph/pass/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "graph/ir/constants.h"
#include "graph/pass/chain_nodes.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

using Numbers = std::vector<double>;
constexpr const char* kName = "BatchNormalization";

// Whether the numbers of the operator are numbers of a chain too.
bool FitFloats(const Numbers& numbers) {
  return std::ranges::all_of(numbers, [](double number) { return std::isfinite(static_cast<float>(number)); });
}

// Whether a chain that the node joins might have another node.
bool HasChainBeside(const ir::Graph& graph, const ir::Uses& uses, const ir::Node& node, const Settings& settings) {
  const auto may_join = [&](int other) {
    const ir::Node& beside = graph.nodes[static_cast<size_t>(other)];
    return (TermsOf(graph, beside) || BatchNormOf(graph, beside, settings)) &&
           graph.SameDims(beside.outputs[0], node.outputs[0]);
  };
  const int maker = uses.producer(node.inputs[0]);
  return (maker >= 0 && may_join(maker)) ||
         std::ranges::any_of(uses.readers(node.outputs[0]),
                             [&](const ir::Uses::Use& use) { return may_join(use.node); });
}

}  // namespace

std::optional<BatchNorm> BatchNormOf(const ir::Graph& graph, const ir::Node& node, const Settings& settings) {
  const bool is_norm = node.Is(kName) || node.Is(kName, ops::kNhwcDomain);
  if (!is_norm || node.on_host || node.inputs.size() != 5) return std::nullopt;
  const ir::NodeInfo info(graph, node, settings);
  const bool trains = node.outputs.size() != 1 || info.BoolOr("training_mode", false);
  if (trains || !info.BoolOr("spatial", true)) return std::nullopt;
  Numbers parameters[4];
  for (size_t i = 0; i < 4; ++i) {
    auto numbers = ir::NumbersOf(graph, node.inputs[i + 1]);
    if (!numbers || (i > 0 && numbers->size() != parameters[0].size())) return std::nullopt;
    parameters[i] = std::move(*numbers);
  }
  auto& [scale, bias, mean, variance] = parameters;
  for (size_t c = 0; c < scale.size(); ++c) {
    scale[c] /= std::sqrt(variance[c] + static_cast<double>(info.FloatOr("epsilon", 1e-5f)));
  }
  return BatchNorm{std::move(mean), std::move(scale), std::move(bias), std::move(variance)};
}

void SpellBatchNorms(ir::Graph& graph, const PassContext& context) {
  const ir::Uses uses(graph);
  for (ir::Node& node : graph.nodes) {
    const auto norm = BatchNormOf(graph, node, context.settings);
    if (!norm || !FitFloats(norm->mean) || !FitFloats(norm->factor) || !FitFloats(norm->bias)) continue;
    const int x = node.inputs[0];
    const auto& dims = graph.value(x).dims;
    const bool is_known = kFloatTypesNoDouble.Contains(graph.value(x).type) && graph.SameDims(x, node.outputs[0]);
    if (!is_known || dims->size() < 2 || !HasChainBeside(graph, uses, node, context.settings)) continue;
    const bool channels_last = node.domain == ops::kNhwcDomain;
    const auto channels = static_cast<int64_t>(norm->mean.size());
    if ((channels_last ? dims->back() : (*dims)[1]).size != channels) continue;
    std::vector<int64_t> of_channels(channels_last ? 1 : dims->size() - 1, 1);
    of_channels.front() = channels;
    ir::Node spelled = node;
    spelled.domain = ops::kFusedDomain;
    spelled.op_type = "Elementwise";
    spelled.since_version = 1;
    spelled.inputs.resize(1);
    for (const Numbers* numbers : {&norm->mean, &norm->factor, &norm->bias}) {
      spelled.inputs.push_back(
          graph.AddConstant(node.name, ir::MakeNumbers(DataType::kFloat, Shape(Dims(of_channels)), *numbers)));
    }
    SetTerms({"Sub", "Mul", "Add"}, spelled);
    if (context.IsSupported(graph, spelled)) node = std::move(spelled);
  }
}

}  // namespace cudaep::graph
