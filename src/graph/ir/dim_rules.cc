#include "graph/ir/dim_rules.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <utility>

#include "graph/ir/attributes.h"
#include "ops/registry.h"

namespace cudaep::graph::ir {

const MaybeDims& DimRules::Stated(const Node& node, size_t input) const {
  static const MaybeDims kNone;
  return input < node.inputs.size() && node.inputs[input] >= 0 ? graph_.value(node.inputs[input]).dims : kNone;
}

namespace {

// Operators whose first output has the dimensions of the first input.
constexpr std::string_view kLikeFirst[] = {"Abs",
                                           "Acos",
                                           "Acosh",
                                           "Asin",
                                           "Asinh",
                                           "Atan",
                                           "Atanh",
                                           "BatchNormalization",
                                           "Bernoulli",
                                           "BitwiseNot",
                                           "Cast",
                                           "CastLike",
                                           "Ceil",
                                           "Celu",
                                           "Clip",
                                           "Cos",
                                           "Cosh",
                                           "CumProd",
                                           "CumSum",
                                           "DequantizeLinear",
                                           "Dropout",
                                           "DynamicQuantizeLinear",
                                           "Elu",
                                           "Erf",
                                           "Exp",
                                           "EyeLike",
                                           "Floor",
                                           "Gelu",
                                           "GroupNormalization",
                                           "HardSigmoid",
                                           "HardSwish",
                                           "Hardmax",
                                           "Identity",
                                           "InstanceNormalization",
                                           "IsInf",
                                           "IsNaN",
                                           "LRN",
                                           "LayerNormalization",
                                           "LeakyRelu",
                                           "Log",
                                           "LogSoftmax",
                                           "LpNormalization",
                                           "MeanVarianceNormalization",
                                           "Mish",
                                           "Neg",
                                           "Not",
                                           "PRelu",
                                           "QuantizeLinear",
                                           "RMSNormalization",
                                           "RandomNormalLike",
                                           "RandomUniformLike",
                                           "Reciprocal",
                                           "Relu",
                                           "ReverseSequence",
                                           "RotaryEmbedding",
                                           "Round",
                                           "Scatter",
                                           "ScatterElements",
                                           "ScatterND",
                                           "Selu",
                                           "Shrink",
                                           "Sigmoid",
                                           "Sign",
                                           "SimplifiedLayerNormalization",
                                           "Sin",
                                           "Sinh",
                                           "Softmax",
                                           "Softplus",
                                           "Softsign",
                                           "Sqrt",
                                           "Swish",
                                           "Tan",
                                           "Tanh",
                                           "TensorScatter",
                                           "ThresholdedRelu",
                                           "Trilu"};
constexpr std::string_view kMicrosoftLikeFirst[] = {"BiasAdd",
                                                    "BiasDropout",
                                                    "BiasGelu",
                                                    "BiasSoftmax",
                                                    "DequantizeLinear",
                                                    "FastGelu",
                                                    "Gelu",
                                                    "GroupNorm",
                                                    "QLinearLeakyRelu",
                                                    "QLinearSigmoid",
                                                    "QLinearSoftmax",
                                                    "QuantizeLinear",
                                                    "QuickGelu",
                                                    "RotaryEmbedding",
                                                    "SkipLayerNormalization",
                                                    "SkipSimplifiedLayerNormalization"};
constexpr std::string_view kBroadcast[] = {"Add",        "And",         "BitShift", "BitwiseAnd", "BitwiseOr",
                                           "BitwiseXor", "Div",         "Equal",    "Greater",    "GreaterOrEqual",
                                           "Less",       "LessOrEqual", "Max",      "Mean",       "Min",
                                           "Mod",        "Mul",         "Or",       "Pow",        "Sub",
                                           "Sum",        "Where",       "Xor"};
constexpr std::string_view kReduced[] = {"ArgMax",       "ArgMin",          "ReduceL1",  "ReduceL2",
                                         "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
                                         "ReduceMin",    "ReduceProd",      "ReduceSum", "ReduceSumSquare"};
constexpr std::string_view kPooled[] = {"GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"};

bool Has(std::span<const std::string_view> operators, const Node& node) {
  return std::ranges::find(operators, node.op_type) != operators.end();
}

}  // namespace

MaybeDims DimRules::Of(const Node& node, size_t output) {
  if (node.domain == ops::kMicrosoftDomain) return OfMicrosoft(node, output);
  if (!node.domain.empty()) return std::nullopt;
  if (node.Is("Split")) return Split(node, output);
  if (node.Is("TopK")) return Selected(node);
  if (node.Is("Attention")) return Attended(node, output);
  if (node.Is("LSTM") || node.Is("GRU") || node.Is("RNN")) return Recurrent(node, output);
  if (node.Is("MaxPool")) return Windowed(node);  // and places
  if (output != 0) return std::nullopt;
  if (Has(kLikeFirst, node)) return Stated(node, 0);
  if (Has(kBroadcast, node)) return Broadcast(node);
  if (Has(kReduced, node)) return Reduced(node);
  if (Has(kPooled, node)) return Pooled(node);
  using Rule = MaybeDims (*)(DimRules&, const Node&);
  static constexpr std::pair<std::string_view, Rule> kRules[] = {
      {"AveragePool", [](DimRules& rules, const Node& n) { return rules.Windowed(n); }},
      {"Concat", [](DimRules& rules, const Node& n) { return rules.Joined(n); }},
      {"ConstantOfShape", [](DimRules& rules, const Node& n) { return rules.Filled(n); }},
      {"Conv", [](DimRules& rules, const Node& n) { return rules.Windowed(n, 1); }},
      {"ConvInteger", [](DimRules& rules, const Node& n) { return rules.Windowed(n, 1); }},
      {"ConvTranspose", [](DimRules& rules, const Node& n) { return rules.Spread(n); }},
      {"Einsum", [](DimRules& rules, const Node& n) { return rules.Contracted(n); }},
      {"DepthToSpace", [](DimRules& rules, const Node& n) { return rules.Folded(n); }},
      {"Expand", [](DimRules& rules, const Node& n) { return rules.Expanded(n); }},
      {"Flatten", [](DimRules& rules, const Node& n) { return rules.Flattened(n); }},
      {"Gather", [](DimRules& rules, const Node& n) { return rules.Gathered(n); }},
      {"GatherElements", [](DimRules& rules, const Node& n) { return rules.Stated(n, 1); }},
      {"GatherND", [](DimRules& rules, const Node& n) { return rules.GatheredAt(n); }},
      {"Gemm", [](DimRules& rules, const Node& n) { return rules.Gemm(n, 1); }},
      {"LpPool", [](DimRules& rules, const Node& n) { return rules.Windowed(n); }},
      {"MatMul", [](DimRules& rules, const Node& n) { return rules.Product(n, 1); }},
      {"MatMulInteger", [](DimRules& rules, const Node& n) { return rules.Product(n, 1); }},
      {"OneHot", [](DimRules& rules, const Node& n) { return rules.Encoded(n); }},
      {"Pad", [](DimRules& rules, const Node& n) { return rules.Padded(n); }},
      {"QLinearConv", [](DimRules& rules, const Node& n) { return rules.Windowed(n, 3); }},
      {"QLinearMatMul", [](DimRules& rules, const Node& n) { return rules.Product(n, 3); }},
      {"Range", [](DimRules& rules, const Node& n) { return rules.Counted(n); }},
      {"Reshape", [](DimRules& rules, const Node& n) { return rules.Reshaped(n); }},
      {"Resize", [](DimRules& rules, const Node& n) { return rules.Resized(n); }},
      {"RoiAlign", [](DimRules& rules, const Node& n) { return rules.Aligned(n); }},
      {"Slice", [](DimRules& rules, const Node& n) { return rules.Sliced(n); }},
      {"SpaceToDepth", [](DimRules& rules, const Node& n) { return rules.Folded(n); }},
      {"Squeeze", [](DimRules& rules, const Node& n) { return rules.Squeezed(n); }},
      {"Tile", [](DimRules& rules, const Node& n) { return rules.Tiled(n); }},
      {"Transpose", [](DimRules& rules, const Node& n) { return rules.Transposed(n); }},
      {"Unsqueeze", [](DimRules& rules, const Node& n) { return rules.Unsqueezed(n); }},
  };
  const auto* const found = std::ranges::find(kRules, node.op_type, &std::pair<std::string_view, Rule>::first);
  return found == std::end(kRules) ? std::nullopt : found->second(*this, node);
}

bool DimRules::Overrules(const Node& node) {
  const auto is = [&](const char* op) { return node.op_type == op; };
  if (node.domain == ops::kMicrosoftDomain) {
    // Values of another size than queries; an operator that the host takes for ONNX's of the same name.
    return is("Attention") || is("MultiHeadAttention") || is("GatherND");
  }
  if (!node.domain.empty()) return false;
  if (is("Attention")) return true;  // values of another size
  if (is("Einsum")) return true;     // a dimension of 1 beside a larger one
  if (is("Slice")) return true;      // axes that are computed
  if (is("Squeeze")) return node.attributes.contains("axes") || node.inputs.size() > 1;  // axes in any order
  // A window that would begin behind the image.
  return node.op_type.ends_with("Pool") && IntAttribute(node, "ceil_mode", 0) != 0;
}

MaybeDims DimRules::OfMicrosoft(const Node& node, size_t output) {
  if (node.op_type == "Attention") return AttendedPacked(node, output);
  if (node.op_type == "MultiHeadAttention") return AttendedByHeads(node, output);
  constexpr size_t kSum = 3;  // of skip normalisations
  if (output != 0 && !(output == kSum && node.op_type.starts_with("Skip"))) return std::nullopt;
  if (Has(kMicrosoftLikeFirst, node)) return Stated(node, 0);
  const auto is = [&](std::string_view op) { return node.op_type == op; };
  if (is("FusedMatMul") || is("TransposeMatMul") || is("DynamicQuantizeMatMul") || is("MatMulIntegerToFloat")) {
    return Product(node, 1);
  }
  if (is("FusedGemm")) return Gemm(node, 1);
  if (is("FusedConv")) return Windowed(node, 1);
  if (is("QGemm")) return Gemm(node, 3);
  if (is("QLinearAdd") || is("QLinearMul")) {
    if (!Stated(node, 0) || !Stated(node, 3)) return std::nullopt;
    return BroadcastDims(*Stated(node, 0), *Stated(node, 3));
  }
  if (is("GatherND")) return GatheredAt(node);
  if (is("MatMulNBits")) {
    MaybeDims dims = Stated(node, 0);
    if (dims && !dims->empty()) dims->back() = SizeAttribute(node, "N");
    return dims;
  }
  return std::nullopt;
}

DimList DimRules::DimsOf(const Elements& sizes) {
  DimList dims;
  std::ranges::transform(sizes, std::back_inserter(dims), Symbols::DimOf);
  return dims;
}

Dim DimRules::SizeAttribute(const Node& node, const char* name, int64_t fallback) {
  const int64_t size = IntAttribute(node, name, fallback);
  return size < 0 ? Dim{} : Dim{.size = size};
}

MaybeDims DimRules::Contracted(const Node& node) const {
  std::string equation = AttributeOr(node, "equation", std::string());
  std::erase(equation, ' ');
  const size_t arrow = equation.find("->");
  if (arrow == equation.npos || equation.find('.') != equation.npos) return std::nullopt;
  std::map<char, Dim> dims;
  size_t input = 0, axis = 0;
  for (const char label : equation.substr(0, arrow) + ',') {
    const MaybeDims& of = Stated(node, input);
    if (!of || (label == ',' ? axis != of->size() : axis >= of->size())) return std::nullopt;
    if (label == ',') {
      ++input, axis = 0;
      continue;
    }
    const auto [entry, fresh] = dims.try_emplace(label, (*of)[axis]);
    if (!fresh) entry->second = BroadcastDim(entry->second, (*of)[axis]);
    ++axis;
  }
  DimList made;
  for (const char label : equation.substr(arrow + 2)) {
    if (!dims.contains(label)) return std::nullopt;
    made.push_back(dims[label]);
  }
  return made;
}

bool DimRules::IsFirst(const Dim& part, const Dim& whole) const {
  const auto found = wanted_.find(part.symbol);
  return found != wanted_.end() && found->second == whole.symbol;
}

Dim DimRules::BroadcastDim(const Dim& a, const Dim& b) const {
  if (a.Equals(b) || b.size == 1 || IsFirst(b, a)) return a;
  if (IsFirst(a, b)) return b;
  if (a.size == 1) return b;
  if (a.size > 1) return a;
  if (b.size > 1) return b;
  return {};
}

DimList DimRules::BroadcastDims(const DimList& a, const DimList& b) const {
  const DimList &longer = a.size() < b.size() ? b : a, &shorter = a.size() < b.size() ? a : b;
  DimList dims = longer;
  const size_t ahead = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) dims[ahead + i] = BroadcastDim(longer[ahead + i], shorter[i]);
  return dims;
}

MaybeDims DimRules::Broadcast(const Node& node) const {
  DimList dims;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!Stated(node, i)) return std::nullopt;
    dims = BroadcastDims(dims, *Stated(node, i));
  }
  return dims;
}

MaybeDims DimRules::Reshaped(const Node& node) {
  const Elements* const target = node.inputs.size() < 2 ? nullptr : ElementsOf(node.inputs[1]);
  if (target == nullptr) return std::nullopt;
  const MaybeDims& from = Stated(node, 0);
  const bool zero_is_size = IntAttribute(node, "allowzero", 0) != 0;
  DimList dims(target->size());
  Element rest = Number(1), others = Number(1);
  for (size_t i = 0; from && i < from->size(); ++i) rest = Times(rest, ElementOf((*from)[i]));
  int open = -1;
  for (size_t i = 0; i < target->size(); ++i) {
    const Element& element = (*target)[i];
    if (element == Number(-1)) {
      open = static_cast<int>(i);
      continue;
    }
    if (element == Number(0) && !zero_is_size) {
      if (from && i < from->size()) dims[i] = (*from)[i];
    } else {
      dims[i] = Symbols::DimOf(element);
    }
    others = Times(others, ElementOf(dims[i]));
  }
  if (open >= 0 && from) dims[static_cast<size_t>(open)] = Symbols::DimOf(Quotient(rest, others));
  return dims;
}

MaybeDims DimRules::Transposed(const Node& node) const {
  const MaybeDims& from = Stated(node, 0);
  if (!from) return std::nullopt;
  DimList dims(from->rbegin(), from->rend());
  const auto* const perm = FindAttribute<std::vector<int64_t>>(node, "perm");
  if (perm == nullptr) return dims;
  if (perm->size() != from->size()) return std::nullopt;
  for (size_t i = 0; i < perm->size(); ++i) dims[i] = (*from)[static_cast<size_t>((*perm)[i])];
  return dims;
}

MaybeDims DimRules::Expanded(const Node& node) {
  const Elements* const target = ElementsOf(node.inputs[1]);
  const MaybeDims& from = Stated(node, 0);
  if (target == nullptr || !from) return std::nullopt;
  return BroadcastDims(*from, DimsOf(*target));
}

MaybeDims DimRules::Filled(const Node& node) const {
  const Elements* const shape = ElementsOf(node.inputs[0]);
  return shape == nullptr ? std::nullopt : MaybeDims(DimsOf(*shape));
}

MaybeDims DimRules::Product(const Node& node, size_t right) {
  const auto is = [&](const char* name) { return IntAttribute(node, name, 0) != 0; };
  if (is("transBatchA") || is("transBatchB") || !Stated(node, 0) || !Stated(node, right)) return std::nullopt;
  DimList a = *Stated(node, 0), b = *Stated(node, right);
  if (a.size() < 2 || b.size() < 2) return std::nullopt;
  if (is("transA")) std::swap(a[a.size() - 2], a[a.size() - 1]);
  if (is("transB")) std::swap(b[b.size() - 2], b[b.size() - 1]);
  const Dim& inner = b[b.size() - 2];
  if (!is("transA") && !a.back().known() && inner.known()) graph_.value(node.inputs[0]).dims->back() = inner;
  DimList dims = BroadcastDims({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2});
  dims.push_back(a[a.size() - 2]);
  dims.push_back(b.back());
  return dims;
}

MaybeDims DimRules::Gemm(const Node& node, size_t right) const {
  const MaybeDims &a = Stated(node, 0), &b = Stated(node, right);
  if (!a || !b || a->size() != 2 || b->size() != 2) return std::nullopt;
  return DimList{(*a)[IntAttribute(node, "transA", 0) != 0 ? 1 : 0],
                 (*b)[IntAttribute(node, "transB", 0) != 0 ? 0 : 1]};
}

}  // namespace cudaep::graph::ir
