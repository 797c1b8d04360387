#include "graph/pass/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "graph/ir/constants.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

using Numbers = std::vector<double>;
constexpr const char* kName = "BatchNormalization";

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

}  // namespace cudaep::graph
