#include "graph/ir/dim_rules.h"

#include <algorithm>

#include "graph/ir/attributes.h"
#include "ops/registry.h"

namespace cudaep::graph::ir {

const MaybeDims& DimRules::Stated(const Node& node, size_t input) const {
  static const MaybeDims kNone;
  return input < node.inputs.size() && node.inputs[input] >= 0 ? graph_.value(node.inputs[input]).dims : kNone;
}

MaybeDims DimRules::Of(const Node& node, size_t output) {
  if (node.Is("Split")) return Split(node, output);
  if (node.domain == ops::kMicrosoftDomain) return OfMicrosoft(node, output);
  if (output != 0) return std::nullopt;
  static constexpr std::string_view kLikeFirst[] = {"Abs",
                                                    "BatchNormalization",
                                                    "Cast",
                                                    "Ceil",
                                                    "Clip",
                                                    "Cos",
                                                    "DequantizeLinear",
                                                    "Dropout",
                                                    "Elu",
                                                    "Erf",
                                                    "Exp",
                                                    "Floor",
                                                    "Gelu",
                                                    "HardSigmoid",
                                                    "GroupNormalization",
                                                    "HardSwish",
                                                    "Identity",
                                                    "InstanceNormalization",
                                                    "IsNaN",
                                                    "LeakyRelu",
                                                    "LayerNormalization",
                                                    "Log",
                                                    "LogSoftmax",
                                                    "Neg",
                                                    "Not",
                                                    "QuantizeLinear",
                                                    "RMSNormalization",
                                                    "Reciprocal",
                                                    "Relu",
                                                    "Round",
                                                    "Sigmoid",
                                                    "SimplifiedLayerNormalization",
                                                    "Sin",
                                                    "Softmax",
                                                    "Sqrt",
                                                    "Swish",
                                                    "Tanh",
                                                    "Trilu"};
  static constexpr std::string_view kBroadcast[] = {"Add",  "And",         "Div", "Equal", "Greater", "GreaterOrEqual",
                                                    "Less", "LessOrEqual", "Max", "Min",   "Mod",     "Mul",
                                                    "Or",   "Pow",         "Sub", "Where"};
  if (!node.domain.empty()) return std::nullopt;
  if (std::ranges::find(kLikeFirst, node.op_type) != std::end(kLikeFirst)) return Stated(node, 0);
  if (std::ranges::find(kBroadcast, node.op_type) != std::end(kBroadcast)) return Broadcast(node);
  if (node.Is("Reshape")) return Reshaped(node);
  if (node.Is("Transpose")) return Transposed(node);
  if (node.Is("Expand")) return Expanded(node);
  if (node.Is("MatMul")) return Product(node);
  if (node.Is("Gemm")) return Gemm(node);
  if (node.Is("Gather")) return Gathered(node);
  if (node.Is("GatherElements")) return Stated(node, 1);
  if (node.Is("GatherND")) return GatheredAt(node);
  if (node.Is("Range")) return Counted(node);
  if (node.Is("Unsqueeze")) return Unsqueezed(node);
  if (node.Is("Squeeze")) return Squeezed(node);
  if (node.Is("Concat")) return Joined(node);
  if (node.Is("Slice")) return Sliced(node);
  if (node.Is("Tile")) return Tiled(node);
  if (node.Is("Pad")) return Padded(node);
  if (node.Is("Flatten")) return Flattened(node);
  if (node.Is("Conv") || node.Is("MaxPool") || node.Is("AveragePool") || node.Is("LpPool")) return Windowed(node);
  if (node.Is("Resize")) return Resized(node);
  if (node.Is("GlobalAveragePool") || node.Is("GlobalMaxPool")) return Pooled(node);
  if (node.Is("ReduceMean") || node.Is("ReduceSum") || node.Is("ReduceMax")) return Reduced(node);
  return std::nullopt;
}

MaybeDims DimRules::OfMicrosoft(const Node& node, size_t output) {
  constexpr size_t kSum = 3;  // of skip normalisations
  static constexpr std::string_view kLikeFirst[] = {"BiasDropout",
                                                    "BiasGelu",
                                                    "BiasSoftmax",
                                                    "DequantizeLinear",
                                                    "FastGelu",
                                                    "Gelu",
                                                    "QuantizeLinear",
                                                    "QuickGelu",
                                                    "RotaryEmbedding",
                                                    "SkipLayerNormalization",
                                                    "SkipSimplifiedLayerNormalization"};
  if (output != 0 && !(output == kSum && node.op_type.starts_with("Skip"))) return std::nullopt;
  if (std::ranges::find(kLikeFirst, node.op_type) != std::end(kLikeFirst)) return Stated(node, 0);
  if (node.op_type == "FusedMatMul" || node.op_type == "TransposeMatMul") return Product(node);
  if (node.op_type == "FusedGemm") return Gemm(node);
  if (node.op_type == "FusedConv") return Windowed(node);
  return std::nullopt;
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
  DimList dims;
  for (const Element& element : *target) dims.push_back(Symbols::DimOf(element));
  return BroadcastDims(*from, dims);
}

MaybeDims DimRules::Product(const Node& node) {
  const auto is = [&](const char* name) { return IntAttribute(node, name, 0) != 0; };
  if (is("transBatchA") || is("transBatchB") || !Stated(node, 0) || !Stated(node, 1)) return std::nullopt;
  DimList a = *Stated(node, 0), b = *Stated(node, 1);
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

MaybeDims DimRules::Gemm(const Node& node) const {
  const MaybeDims &a = Stated(node, 0), &b = Stated(node, 1);
  if (!a || !b || a->size() != 2 || b->size() != 2) return std::nullopt;
  return DimList{(*a)[IntAttribute(node, "transA", 0) != 0 ? 1 : 0],
                 (*b)[IntAttribute(node, "transB", 0) != 0 ? 0 : 1]};
}

}  // namespace cudaep::graph::ir
