#include "graph/pass/product_codes.h"

#include <algorithm>
#include <cmath>

#include "graph/ir/constants.h"
#include "graph/pass/chain_nodes.h"
#include "graph/pass/product_parts.h"
#include "graph/pass/quantization.h"
#include "graph/pass/rewrite.h"
#include "kernels/quant/code_product.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

class Finisher {
 public:
  explicit Finisher(const Rewriter& rewrite) : rewrite_(rewrite), graph_(rewrite.graph) {}

  void Visit(int index) {
    const ir::Node& product = rewrite_.node(index);
    if (!product.Is("MatMulInteger") || product.on_host || !IsPlain(product)) return;
    last_ = index;
    attributes_.clear();
    const ir::Node* const cast = Take("Cast");
    if (cast == nullptr || graph_.value(cast->outputs[0]).type != DataType::kFloat) return;
    const int shift = TakeVector("Add"), scale = TakeVector("Mul");
    if (scale < 0 || !AreModerate(scale)) return;
    const int scaled = last_;
    TakeRequantization();
    int bias = TakeVector("Add");
    auto codes = Quantized(NextOf(last_));
    if (!codes) {  // the first codes are the last
      last_ = scaled, bias = -1;
      attributes_.clear();
      codes = Quantized(NextOf(last_));
    }
    if (!codes) return rewrite_.Miss(last_, "the product of codes does not end in codes");
    Describe("y", *codes);
    last_ = NextOf(last_);
    const int table = TakeTable();
    ir::Node made = rewrite_.Instead(last_, ops::kFusedDomain, "MatMulIntegerToCodes", 1);
    made.attributes = attributes_;
    made.inputs = {product.inputs[0], product.inputs[1], scale, shift, bias, table};
    if (!rewrite_.Replace(last_, std::move(made))) rewrite_.Miss(last_, "no kernel multiplies to these codes");
  }

 private:
  // Both of int8 without zero points, the weights a constant.
  bool IsPlain(const ir::Node& product) const {
    for (size_t i = 2; i < product.inputs.size(); ++i) {
      if (product.inputs[i] >= 0) return false;
    }
    const ir::Value &a = graph_.value(product.inputs[0]), &b = graph_.value(product.inputs[1]);
    return a.type == DataType::kInt8 && b.type == DataType::kInt8 && b.is_constant() && b.constant.rank == 2 &&
           a.dims && !a.dims->empty();
  }

  // As Quantization::is_moderate.
  bool AreModerate(int scales) const {
    const auto numbers = ir::NumbersOf(graph_, scales);
    return numbers && std::ranges::all_of(*numbers, [](double number) { return std::abs(number) <= 0x1p60; });
  }

  int NextOf(int index) const {
    const int next = rewrite_.match.OnlyReader(rewrite_.node(index).outputs[0]);
    return next >= 0 && !rewrite_.IsTaken(next) ? next : -1;
  }

  // The next node where it is of the operator; it belongs to the pattern then.
  const ir::Node* Take(const char* op) {
    const int next = NextOf(last_);
    if (next < 0 || !rewrite_.node(next).Is(op)) return nullptr;
    last_ = next;
    return &rewrite_.node(next);
  }

  // The constant operand of the next node, one number for each column; -1: it has none, or is of another operator.
  int TakeVector(const char* op) {
    const int next = NextOf(last_);
    if (next < 0 || !rewrite_.node(next).Is(op)) return -1;
    const int value = rewrite_.node(last_).outputs[0], vector = Matcher::Other(rewrite_.node(next), value);
    if (vector < 0 || !graph_.value(vector).is_constant() || graph_.value(vector).type != DataType::kFloat ||
        !IsVectorOfLast(graph_, vector, value)) {
      return -1;
    }
    last_ = next;
    return vector;
  }

  std::optional<Quantization> Quantized(int index) const {
    auto codes = index < 0 ? std::nullopt : QuantizationOf(graph_, rewrite_.node(index), "QuantizeLinear");
    return codes && codes->is_uniform() && codes->is_moderate() ? std::move(codes) : std::nullopt;
  }

  // QuantizeLinear and DequantizeLinear back to the same numbers.
  void TakeRequantization() {
    const int quantize = NextOf(last_), dequantize = quantize < 0 ? -1 : NextOf(quantize);
    const auto codes = Quantized(quantize);
    if (!codes || dequantize < 0) return;
    const auto back = QuantizationOf(graph_, rewrite_.node(dequantize), "DequantizeLinear");
    if (!back || !back->IsSame(*codes) || graph_.value(back->real).type != DataType::kFloat) return;
    Describe("first", *codes);
    last_ = dequantize;
  }

  // Of a node that looks up the codes that the pattern has come to.
  int TakeTable() {
    const int next = NextOf(last_);
    if (next < 0 || !rewrite_.node(next).Is("Elementwise", ops::kFusedDomain)) return -1;
    const auto terms = TermsOf(graph_, rewrite_.node(next));
    const std::vector<int>& inputs = rewrite_.node(next).inputs;
    if (!terms || terms->size() != 1 || inputs.size() != 2 || inputs[0] != rewrite_.node(last_).outputs[0]) return -1;
    if (!graph_.value(inputs[1]).is_constant() || graph_.value(inputs[1]).constant.elems() != 256) return -1;
    last_ = next;
    return inputs[1];
  }

  void Describe(const std::string& step, const Quantization& codes) {
    attributes_[step + "_scale"] = std::vector<float>{codes.scale()};
    attributes_[step + "_zero"] = std::vector<int64_t>{codes.zero()};
    attributes_[step + "_lowest"] = std::vector<int64_t>{LowestCode(codes.type)};
  }

  const Rewriter& rewrite_;
  const ir::Graph& graph_;
  int last_ = -1;  // node of the pattern
  ops::Attributes attributes_;
};

// Products of one tensor with weights of the same size, as those of queries, keys and values are, as one node with a
// result for each.
class Joiner {
 public:
  Joiner(ir::Graph& graph, const PassContext& context) : graph_(graph), context_(context), gone_(graph) {}

  void Run() {
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      if (!gone_.IsMarked(n) && IsPart(Node(n))) Join(n);
    }
    gone_.Apply(graph_);
  }

 private:
  ir::Node& Node(int index) { return graph_.nodes[static_cast<size_t>(index)]; }
  static bool IsPart(const ir::Node& node) {
    return node.Is("MatMulIntegerToCodes", ops::kFusedDomain) && node.outputs.size() == 1 && node.inputs[kTable] < 0;
  }
  bool IsLike(const ir::Node& a, const ir::Node& b) const {
    const auto dims = [&](const ir::Node& node) { return graph_.value(node.inputs[1]).constant.dims(); };
    return a.inputs[0] == b.inputs[0] && std::ranges::equal(dims(a), dims(b)) &&
           a.attributes.contains("first_scale") == b.attributes.contains("first_scale");
  }

  // What reads none of the others stands where the first of them does: all read the same tensor.
  void Join(int first) {
    std::vector<int> parts = {first};
    for (int n = first + 1; n < static_cast<int>(graph_.nodes.size()); ++n) {
      const bool fits = parts.size() < kernels::kMostCodeParts && !gone_.IsMarked(n) && IsPart(Node(n));
      if (fits && IsLike(Node(first), Node(n))) parts.push_back(n);
    }
    if (parts.size() == 1) return;
    ir::Node joined = Node(first);
    for (size_t input = 1; input < kTable; ++input) joined.inputs[input] = SideBySide(parts, input);
    for (size_t i = 1; i < parts.size(); ++i) {
      const ir::Node& part = Node(parts[i]);
      joined.outputs.push_back(part.outputs[0]);
      joined.sources.insert(joined.sources.end(), part.sources.begin(), part.sources.end());
      for (const auto& [name, attribute] : part.attributes) {
        std::visit(
            [&, &name = name](const auto& values) {
              using Values = std::decay_t<decltype(values)>;
              if constexpr (std::is_same_v<Values, std::vector<float>> ||
                            std::is_same_v<Values, std::vector<int64_t>>) {
                auto& all = std::get<Values>(joined.attributes.at(name));
                all.insert(all.end(), values.begin(), values.end());
              }
            },
            attribute);
      }
    }
    if (!context_.IsSupported(graph_, joined)) return;
    context_.notes.push_back({Fusion::kChains, joined.sources, {}});
    for (size_t i = 1; i < parts.size(); ++i) gone_.Mark(parts[i]);
    Node(first) = std::move(joined);
  }

  // The parts' constants along their last dimension; -1: none has one.
  int SideBySide(const std::vector<int>& parts, size_t input) {
    std::vector<ProductPart> all;
    bool any = false;
    for (const int part : parts) {
      const int value = Node(part).inputs[input];
      const ops::TensorView weights = graph_.value(Node(part).inputs[1]).constant;
      all.push_back({.weights = value, .columns = weights.dims()[1]});
      any = any || value >= 0;
    }
    return any ? JoinedConstants(graph_, all) : -1;
  }

  static constexpr size_t kTable = 5;
  ir::Graph& graph_;
  const PassContext& context_;
  NodeRemoval gone_;
};

}  // namespace

void FinishProducts(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kChains);
  Finisher finisher(rewrite);
  for (int n = 0; n < rewrite.node_count(); ++n) finisher.Visit(n);
  RemoveDeadNodes(graph);
  if (!context.settings.fusion_skip.Contains(Fusion::kProjections)) Joiner(graph, context).Run();
}

}  // namespace cudaep::graph
