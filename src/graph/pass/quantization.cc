#include "graph/pass/quantization.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include "core/data_type_traits.h"
#include "graph/ir/attributes.h"
#include "graph/ir/constants.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

// Whether quotients are fp32 ones.
bool DividesInFloat(const ir::Graph& graph, const ir::Node& node) {
  const int64_t precision = ir::IntAttribute(node, "precision", 0);
  if (precision != 0) return precision == static_cast<int64_t>(DataType::kFloat);
  return node.since_version < 23 || graph.value(node.inputs[1]).type == DataType::kFloat;
}

}  // namespace

bool Quantization::has_zeros() const {
  return std::ranges::any_of(zeros, [](int32_t zero) { return zero != 0; });
}

std::optional<std::vector<int32_t>> CodesOf(const ir::Graph& graph, int value) {
  if (value < 0 || !graph.value(value).is_constant()) return std::nullopt;
  const ops::TensorView& view = graph.value(value).constant;
  std::vector<int32_t> codes;
  const bool known = VisitType<kInt8Types | DataTypeSet(DataType::kInt32)>(view.type, false, [&]<class T>() {
    const auto all = view.host<T>();
    codes.assign(all.begin(), all.end());
    return true;
  });
  if (!known) return std::nullopt;
  return codes;
}

std::optional<Quantization> QuantizationOf(const ir::Graph& graph, const ir::Node& node, std::string_view op) {
  if (node.on_host || (!node.Is(op) && !node.Is(op, ops::kMicrosoftDomain)) || node.inputs.size() < 2) {
    return std::nullopt;
  }
  const bool quantizes = op == "QuantizeLinear";
  Quantization found{.real = quantizes ? node.inputs[0] : node.outputs[0],
                     .codes = quantizes ? node.outputs[0] : node.inputs[0]};
  found.type = graph.value(found.codes).type;
  const DataTypeSet types = quantizes ? kInt8Types : kInt8Types | DataTypeSet(DataType::kInt32);
  if (!types.Contains(found.type) || !kFloatTypesNoDouble.Contains(graph.value(found.real).type)) return std::nullopt;
  if (ir::IntAttribute(node, "block_size", 0) != 0 || (quantizes && !DividesInFloat(graph, node))) return std::nullopt;

  const auto scales = ir::NumbersOf(graph, node.inputs[1]);
  if (!scales || scales->empty() || graph.value(node.inputs[1]).constant.rank > 1) return std::nullopt;
  found.scales.assign(scales->begin(), scales->end());
  found.zeros.assign(scales->size(), 0);
  if (node.inputs.size() > 2 && node.inputs[2] >= 0) {
    const auto zeros = CodesOf(graph, node.inputs[2]);
    if (!zeros || zeros->size() != scales->size()) return std::nullopt;
    found.zeros = *zeros;
  }
  if (!std::ranges::all_of(found.scales, [](float scale) { return scale > 0 && std::isfinite(scale); })) {
    return std::nullopt;
  }
  if (found.is_uniform()) return found;
  const auto& dims = graph.value(found.codes).dims;
  if (!dims || !node.domain.empty()) return std::nullopt;
  const int64_t rank = static_cast<int64_t>(dims->size()), axis = ir::IntAttribute(node, "axis", 1);
  if (axis < -rank || axis >= rank) return std::nullopt;
  found.axis = static_cast<size_t>(axis < 0 ? axis + rank : axis);
  const ir::Dim& places = (*dims)[found.axis];
  if (places.known() && places.size != static_cast<int64_t>(found.scales.size())) return std::nullopt;
  return found;
}

std::optional<CodedValue> CodedValueOf(const ir::Graph& graph, const Matcher& match, int value) {
  const ir::Node* const maker = match.Maker(value);
  auto linear = maker == nullptr ? std::nullopt : QuantizationOf(graph, *maker, "DequantizeLinear");
  if (!linear || linear->type == DataType::kInt32) return std::nullopt;
  return CodedValue{maker, *std::move(linear)};
}

void AddCoding(ir::Graph& graph, const ir::Node& node, DataType codes, ir::Node& made) {
  int zero = node.inputs.size() > 2 ? node.inputs[2] : -1;
  if (zero < 0) {
    const std::string name = graph.value(node.inputs[1]).name;
    zero = graph.AddConstant(name, {.type = codes, .dims = {}, .data = {std::byte{0}}});
  }
  made.inputs.push_back(node.inputs[1]);
  made.inputs.push_back(zero);
}

}  // namespace cudaep::graph
