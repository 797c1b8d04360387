#include "graph/pass/qdq_softmax.h"

#include <algorithm>
#include <string>
#include <utility>

#include "graph/pass/quantization.h"
#include "graph/pass/rewrite.h"
#include "kernels/quant/qlinear_softmax.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

// A Softmax between codes.
struct CodedSoftmax {
  int index = -1;  // of the QuantizeLinear behind it
  Quantization y;
  CodedValue x;
  int64_t axis = -1;
};

// Takes the mask's Add in front of a Softmax as well.
class Masker {
 public:
  Masker(const Rewriter& rewrite, const CodedSoftmax& of) : rewrite_(rewrite), graph_(rewrite.graph), of_(of) {}

  // False where the Softmax is left as it is.
  bool Run() const {
    const ir::Node* const quantize = rewrite_.match.Maker(of_.x.linear.codes);
    const auto sum = quantize == nullptr ? std::nullopt : QuantizationOf(graph_, *quantize, "QuantizeLinear");
    const ir::Node* const add = sum ? rewrite_.match.Maker(sum->real, "Add") : nullptr;
    if (add == nullptr) return false;
    const int a = add->inputs[0], b = add->inputs[1];
    const auto of_a = ScoresOf(a), of_b = ScoresOf(b);
    if (!of_a && !of_b) return false;  // a sum of numbers, which is no mask of codes
    const bool is_first = of_a && Repeats(b, a);
    if (!is_first && !(of_b && Repeats(a, b))) return Miss("the mask is not known to repeat over the scores");
    return Fuse(*quantize, *sum, is_first ? *of_a : *of_b, is_first ? b : a);
  }

 private:
  bool Miss(std::string why) const {
    rewrite_.Miss(of_.index, std::move(why));
    return false;
  }

  // The codes that a DequantizeLinear makes fp32 of.
  std::optional<CodedValue> ScoresOf(int value) const {
    auto coded = CodedValueOf(graph_, rewrite_.match, value);
    if (!coded || !coded->linear.is_uniform() || !IsFloat(graph_, value) || !IsFloat(graph_, coded->node->inputs[1])) {
      return std::nullopt;
    }
    return coded;
  }

  // Whether the mask has the scores' last dimension, and each other one or 1 in its place.
  bool Repeats(int mask, int scores) const {
    const auto &of_mask = graph_.value(mask).dims, &of_scores = graph_.value(scores).dims;
    if (!of_mask || !of_scores || of_mask->empty() || of_mask->size() > of_scores->size()) return false;
    if (!of_mask->back().Equals(of_scores->back())) return false;
    return std::equal(of_mask->rbegin(), of_mask->rend(), of_scores->rbegin(),
                      [](const ir::Dim& a, const ir::Dim& b) { return a.size == 1 || a.Equals(b); });
  }

  bool Fuse(const ir::Node& quantize, const Quantization& sum, const CodedValue& scores, int mask) const {
    const auto& dims = graph_.value(scores.linear.real).dims;
    const auto rank = static_cast<int64_t>(dims->size());
    if (dims->size() > kernels::kMostMaskedRank) {
      return Miss("masked scores have more than " + std::to_string(kernels::kMostMaskedRank) + " dimensions");
    }
    if (of_.axis != -1 && of_.axis != rank - 1) return Miss("Softmax of masked scores is not along the last dimension");
    if (!sum.IsSame(of_.x.linear)) return Miss("masked scores become numbers by another scale or zero point");
    if (!sum.is_moderate() || !scores.linear.is_moderate() || !of_.y.is_moderate()) {
      return Miss("scales of masked scores are too large or too small");
    }
    for (const int value : {quantize.inputs[1], sum.real, mask}) {
      if (!IsFloat(graph_, value)) return Miss("masked scores are not of fp32");
    }
    for (const int value : {sum.real, sum.codes, of_.x.linear.real}) {
      if (!rewrite_.match.IsPrivate(value)) return Miss("somebody else reads the masked scores");
    }
    ir::Node made = rewrite_.Instead(of_.index, ops::kFusedDomain, "QuantizedSoftmax", 1);
    made.inputs = {scores.linear.codes, mask};
    const auto set = [&](const std::string& name, const Quantization& linear, int32_t offset) {
      made.attributes[name + "_scale"] = linear.scale();
      made.attributes[name + "_zero"] = int64_t{linear.zero() - offset};
    };
    if (const auto coded = ScoresOf(mask)) {
      made.inputs[1] = coded->linear.codes;
      set("mask", coded->linear, 0);
    }
    set("x", scores.linear, 0);
    set("sum", sum, LowestCode(sum.type));  // as if of uint8
    set("y", of_.y, 0);
    return rewrite_.Replace(of_.index, std::move(made)) || Miss("no kernel takes the masked codes");
  }

  const Rewriter& rewrite_;
  const ir::Graph& graph_;
  const CodedSoftmax& of_;
};

void Visit(const Rewriter& rewrite, int index) {
  ir::Graph& graph = rewrite.graph;
  const ir::Node& quantize = rewrite.node(index);
  const auto y = QuantizationOf(graph, quantize, "QuantizeLinear");
  const ir::Node* const softmax = y && y->is_uniform() ? rewrite.match.Maker(y->real, "Softmax") : nullptr;
  if (softmax == nullptr || !rewrite.match.IsPrivate(y->real)) return;
  const auto x = CodedValueOf(graph, rewrite.match, softmax->inputs[0]);
  if (!x || !x->linear.is_uniform() || graph.value(x->linear.codes).is_constant()) return;
  for (const int scale : {x->node->inputs[1], quantize.inputs[1]}) {
    if (!IsFloat(graph, scale)) return rewrite.Miss(index, "Softmax is not between codes of fp32");
  }
  // Softmax also takes a scalar, and before version 13 an axis behind the last.
  const int64_t opset = softmax->since_version, axis = IntAttribute(*softmax, "axis", opset < 13 ? 1 : -1);
  const auto& dims = graph.value(x->linear.codes).dims;
  const int64_t rank = dims ? static_cast<int64_t>(dims->size()) : 0;
  if (axis < -rank || axis >= rank) return rewrite.Miss(index, "Softmax is not known to be along a dimension");
  if (Masker(rewrite, {.index = index, .y = *y, .x = *x, .axis = axis}).Run()) return;

  if (x->linear.type != y->type) return rewrite.Miss(index, "codes before and behind Softmax are of two types");
  ir::Node made = rewrite.Instead(index, ops::kMicrosoftDomain, "QLinearSoftmax", 1);
  made.attributes = {{"axis", axis}, {"opset", opset}};
  made.inputs = {x->linear.codes};
  AddCoding(graph, *x->node, x->linear.type, made);
  AddCoding(graph, rewrite.node(index), y->type, made);
  if (!rewrite.Replace(index, std::move(made))) rewrite.Miss(index, "no kernel takes the codes");
}

}  // namespace

void SoftmaxCodes(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kQdq);
  for (int n = 0; n < rewrite.node_count(); ++n) Visit(rewrite, n);
}

}  // namespace cudaep::graph
