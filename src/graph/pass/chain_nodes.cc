#include "graph/pass/chain_nodes.h"

#include <algorithm>
#include <limits>

#include "graph/ir/attributes.h"
#include "graph/ir/constants.h"
#include "graph/pass/quantization.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

using Terms = std::optional<std::vector<NodeTerm>>;
constexpr int kNone = ops::ChainTerm::kNumber, kNumber = ops::ChainTerm::kNumber;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// An attribute that a term has as a number.
struct Attribute {
  const char* name = nullptr;
  float fallback = 0;
};

// Operators of one tensor. Those of more have their own name as a function's.
struct Unary {
  const char* op;
  DataTypeSet types = kFloatTypesNoDouble;
  Attribute a = {}, b = {};
  const char* function = nullptr;  // where it is not named after the operator
  const char* domain = ops::kOnnxDomain;
};

constexpr Unary kUnary[] = {
    {"Abs"},
    {"Ceil"},
    {"Celu", DataType::kFloat, {"alpha", 1.0f}},
    {"Elu", kFloatTypesNoDouble, {"alpha", 1.0f}},
    {"Erf"},
    {"Exp"},
    {"Floor"},
    {"HardSwish"},
    {"IsNaN"},
    {"LeakyRelu", kFloatTypesNoDouble, {"alpha", 0.01f}},
    {"Log"},
    {"Mish"},
    {"Not", DataType::kBool},
    {"Reciprocal"},
    {"Relu"},
    {"Round"},
    {"Selu", kFloatTypesNoDouble, {"alpha", 1.67326319217681884765625f}, {"gamma", 1.05070102214813232421875f}},
    {"Sigmoid"},
    {"Sign"},
    {"Softplus"},
    {"Softsign"},
    {"Sqrt"},
    {"Swish", kFloatTypesNoDouble, {"alpha", 1.0f}},
    {"Tanh"},
    {"ThresholdedRelu", kFloatTypesNoDouble, {"alpha", 1.0f}},
    {"QuickGelu", kFloatTypesNoDouble, {"alpha", 1.702f}, {}, "Swish", ops::kMicrosoftDomain},
};

struct Binary {
  const char* op;
  DataTypeSet types = kFloatTypesNoDouble;
};

constexpr DataTypeSet kTruth = DataType::kBool;
constexpr Binary kBinary[] = {{"Add"},        {"And", kTruth},    {"Div"},  {"Equal", kFloatTypesNoDouble | kTruth},
                              {"Greater"},    {"GreaterOrEqual"}, {"Less"}, {"LessOrEqual"},
                              {"Mul"},        {"Or", kTruth},     {"Pow"},  {"Sub"},
                              {"Xor", kTruth}};

const std::vector<std::string> kLookUp = {"LookUp"};

class Reader {
 public:
  Reader(const ir::Graph& graph, const ir::Node& node) : graph_(graph), node_(node) {}

  Terms Read() const {
    if (node_.on_host || node_.inputs.empty() || node_.outputs.size() != 1 || node_.inputs[0] < 0) return std::nullopt;
    for (const Unary& unary : kUnary) {
      if (node_.Is(unary.op, unary.domain)) return ReadUnary(unary);
    }
    for (const Binary& binary : kBinary) {
      if (node_.Is(binary.op)) return ReadBinary(binary);
    }
    if (node_.Is("Neg")) return One("Affine", kFloatTypesNoDouble, -1, -0.0f);
    if (node_.Is("Gelu") || node_.Is("Gelu", ops::kMicrosoftDomain)) return ReadGelu();
    if (node_.Is("HardSigmoid")) return ReadHardSigmoid();
    if (node_.Is("Clip")) return ReadClip();
    if (node_.Is("Cast")) return ReadCast();
    if (node_.Is("Where")) return ReadWhere();
    if (node_.Is("Elementwise", ops::kFusedDomain)) return ReadLookUp();
    if (node_.Is("Max") || node_.Is("Min")) return ReadVariadic(node_.op_type == "Max" ? "Max" : "Min");
    if (node_.Is("Sum")) return ReadVariadic("Add");
    if (const auto linear = QuantizationOf(graph_, node_, "DequantizeLinear")) return ReadDequantize(*linear);
    if (const auto linear = QuantizationOf(graph_, node_, "QuantizeLinear")) return ReadQuantize(*linear);
    return std::nullopt;
  }

 private:
  DataType TypeOf(int value) const { return graph_.value(value).type; }
  size_t RankOf(int value) const { return graph_.value(value).dims ? graph_.value(value).dims->size() : SIZE_MAX; }

  Terms One(const char* function, DataTypeSet types, float a = 0, float b = 0) const {
    if (node_.inputs.size() != 1 || !types.Contains(TypeOf(node_.inputs[0]))) return std::nullopt;
    return std::vector<NodeTerm>{{function, {node_.inputs[0], kNone, kNone}, {a, b}}};
  }

  Terms ReadUnary(const Unary& unary) const {
    const auto number = [&](const Attribute& attribute) {
      return attribute.name == nullptr ? 0.0f : ir::FloatAttribute(node_, attribute.name, attribute.fallback);
    };
    return One(unary.function == nullptr ? unary.op : unary.function, unary.types, number(unary.a), number(unary.b));
  }

  Terms ReadGelu() const {
    const std::string form = ir::AttributeOr<std::string>(node_, "approximate", "none");
    if (form != "none" && form != "tanh") return std::nullopt;
    return One(form == "tanh" ? "GeluTanh" : "Gelu", kFloatTypesNoDouble);
  }

  Terms ReadHardSigmoid() const {
    Terms terms = One("Affine", kFloatTypesNoDouble, ir::FloatAttribute(node_, "alpha", 0.2f),
                      ir::FloatAttribute(node_, "beta", 0.5f));
    if (terms) terms->push_back({"Clamp", {NodeTerm::kBefore, kNone, kNone}, {0, 1}});
    return terms;
  }

  // The number that an input always is, where the result has its rank from another.
  std::optional<float> NumberOf(size_t input) const {
    const int value = node_.inputs[input];
    const std::optional<double> number = ir::ScalarOf(graph_, value);
    const size_t rank = RankOf(node_.outputs[0]);
    const bool another = std::ranges::any_of(node_.inputs, [&](int other) {
      return other != value && other >= 0 && !ir::ScalarOf(graph_, other) && RankOf(other) == rank;
    });
    if (!number || rank == SIZE_MAX || !another) return std::nullopt;
    return static_cast<float>(*number);
  }

  Terms ReadBinary(const Binary& binary) const {
    if (node_.inputs.size() != 2 || node_.inputs[1] < 0 || !binary.types.Contains(TypeOf(node_.inputs[0]))) {
      return std::nullopt;
    }
    NodeTerm term{binary.op, {node_.inputs[0], node_.inputs[1], kNone}};
    for (size_t i = 0; i < 2; ++i) {
      if (const std::optional<float> number = NumberOf(i)) {
        term.operands[i] = kNumber;
        term.numbers[0] = *number;
      }
    }
    // Exponents may be of another type.
    if (TypeOf(node_.inputs[0]) != TypeOf(node_.inputs[1]) && term.operands[1] != kNumber) return std::nullopt;
    return std::vector<NodeTerm>{term};
  }

  Terms ReadVariadic(const char* function) const {
    std::vector<NodeTerm> terms;
    for (size_t i = 0; i < node_.inputs.size(); ++i) {
      if (node_.inputs[i] < 0 || !kFloatTypesNoDouble.Contains(TypeOf(node_.inputs[i]))) return std::nullopt;
      if (i == 0) continue;
      const int before = i == 1 ? node_.inputs[0] : NodeTerm::kBefore;
      const std::optional<float> number = NumberOf(i);
      terms.push_back({function, {before, number ? kNumber : node_.inputs[i], kNone}, {number.value_or(0)}});
    }
    if (terms.empty()) return std::nullopt;
    return terms;
  }

  Terms ReadClip() const {
    if (!kFloatTypesNoDouble.Contains(TypeOf(node_.inputs[0]))) return std::nullopt;
    // Before version 11 infinities are cut to the largest numbers, which 16 bits do not hold.
    const bool finite = node_.since_version < 11 && TypeOf(node_.inputs[0]) == DataType::kFloat;
    const float most = finite ? std::numeric_limits<float>::max() : kInfinity;
    std::array<float, 2> bounds = {ir::FloatAttribute(node_, "min", -most), ir::FloatAttribute(node_, "max", most)};
    for (size_t i = 1; i < node_.inputs.size(); ++i) {
      if (node_.inputs[i] < 0) continue;
      const std::optional<double> number = ir::ScalarOf(graph_, node_.inputs[i]);
      if (!number) return std::nullopt;
      bounds[i - 1] = static_cast<float>(*number);
    }
    // Of bounds that cross each other the upper one holds; those that are NaN are left to the operator.
    if (!(bounds[0] <= bounds[1])) return std::nullopt;
    return std::vector<NodeTerm>{{"Clamp", {node_.inputs[0], kNone, kNone}, bounds}};
  }

  Terms ReadCast() const {
    const DataType from = TypeOf(node_.inputs[0]), to = TypeOf(node_.outputs[0]);
    if (node_.inputs.size() != 1 || !kernels::kChainInputTypes.Contains(from)) return std::nullopt;
    const std::array<int, 3> operand = {node_.inputs[0], kNone, kNone};
    if (to == DataType::kBool) return std::vector<NodeTerm>{{"Truth", operand}};
    if (to == DataType::kFloat) return std::vector<NodeTerm>{{"Float32", operand, {1, -0.0f}}};
    if (to == from && kFloat16Types.Contains(to)) return std::vector<NodeTerm>{{"Affine", operand, {1, -0.0f}}};
    if (to == DataType::kFloat16) return std::vector<NodeTerm>{{"Float16", operand}};
    if (to == DataType::kBFloat16) return std::vector<NodeTerm>{{"BFloat16", operand}};
    return std::nullopt;
  }

  // A zero point of codes of 32 bits is taken off before they become floats, which terms do not.
  Terms ReadDequantize(const Quantization& linear) const {
    const bool of_last = linear.axis + 1 == RankOf(linear.codes);
    const bool has_zero = linear.has_zeros();
    if (has_zero && (!linear.is_uniform() || linear.type == DataType::kInt32)) return std::nullopt;
    if (!linear.is_uniform() && !of_last) return std::nullopt;
    std::vector<NodeTerm> terms;
    if (has_zero) terms.push_back({"Affine", {linear.codes, kNone, kNone}, {1, static_cast<float>(-linear.zero())}});
    const int x = has_zero ? NodeTerm::kBefore : linear.codes;
    if (linear.is_uniform()) {
      terms.push_back({"Affine", {x, kNone, kNone}, {linear.scale(), -0.0f}});
    } else {
      terms.push_back({"Mul", {x, node_.inputs[1], kNone}});
    }
    return terms;
  }

  Terms ReadQuantize(const Quantization& linear) const {
    if (!linear.is_uniform() || !ops::MayQuantizeBy(linear.scale())) return std::nullopt;
    const auto lowest = static_cast<float>(LowestCode(linear.type) - linear.zero());
    std::vector<NodeTerm> terms = {{"Quantize", {linear.real, kNone, kNone}, {linear.scale(), lowest}}};
    if (linear.zero() != 0) {
      terms.push_back({"Affine", {NodeTerm::kBefore, kNone, kNone}, {1, static_cast<float>(linear.zero())}});
    }
    return terms;
  }

  Terms ReadLookUp() const {
    if (ir::AttributeOr<std::vector<std::string>>(node_, "functions", {}) != kLookUp) return std::nullopt;
    const auto numbers = ir::AttributeOr<std::vector<float>>(node_, "numbers", {0});
    return std::vector<NodeTerm>{{"LookUp", {node_.inputs[0], node_.inputs[1], kNone}, {numbers[0]}}};
  }

  Terms ReadWhere() const {
    constexpr DataTypeSet kValues = kFloatTypesNoDouble | kTruth;
    if (node_.inputs.size() != 3 || graph_.value(node_.inputs[0]).is_constant()) return std::nullopt;
    NodeTerm term{"Where", {node_.inputs[0], node_.inputs[1], node_.inputs[2]}};
    size_t numbers = 0;
    for (size_t i = 1; i < 3; ++i) {
      if (!kValues.Contains(TypeOf(node_.inputs[i]))) return std::nullopt;
      if (const std::optional<float> number = NumberOf(i)) {
        term.operands[i] = kNumber;
        term.numbers[numbers++] = *number;
      }
    }
    return std::vector<NodeTerm>{term};
  }

  const ir::Graph& graph_;
  const ir::Node& node_;
};

}  // namespace

void SetLookUp(ir::Node& node, float lowest) {
  node.attributes = {{"functions", kLookUp},
                     {"operands", std::vector<int64_t>{0, 1, ops::ChainTerm::kNumber}},
                     {"numbers", std::vector<float>{lowest, 0}},
                     {"results", std::vector<int64_t>{2}}};
}

std::optional<std::vector<NodeTerm>> TermsOf(const ir::Graph& graph, const ir::Node& node) {
  return Reader(graph, node).Read();
}

}  // namespace cudaep::graph
