#include "graph/pass/qdq_norms.h"

#include <algorithm>

#include "graph/pass/quantization.h"
#include "graph/pass/rewrite.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

// What is normalised: the codes of a tensor, or of two that are added.
struct Summands {
  CodedValue x;
  std::optional<CodedValue> residual;
  std::optional<CodedValue> sum;  // the codes that the sum is rounded to
};

class Normalizer {
 public:
  Normalizer(const Rewriter& rewrite, int index) : rewrite_(rewrite), graph_(rewrite.graph), index_(index) {}

  void Run() const {
    const ir::Node& quantize = rewrite_.node(index_);
    const auto y = QuantizationOf(graph_, quantize, "QuantizeLinear");
    const ir::Node* const norm = y ? rewrite_.match.Maker(y->real, "LayerNormalization") : nullptr;
    if (norm == nullptr) return;
    const std::optional<Summands> of = SummandsOf(norm->inputs[0]);
    if (!of) return;
    if (!y->is_uniform()) return Miss("codes behind LayerNormalization have several scales");
    if (!y->is_moderate()) return Miss("scales around LayerNormalization are too large or too small");
    if (!rewrite_.match.IsPrivate(y->real)) return Miss("somebody else reads the normalised numbers");
    if (const char* const why = Refusal(*norm, quantize)) return Miss(why);

    ir::Node made = rewrite_.Instead(index_, ops::kFusedDomain, "QuantizedLayerNormalization", 1);
    made.attributes = {{"epsilon", FloatAttribute(*norm, "epsilon", 1e-5f)}};
    const auto gamma = norm->inputs[1], beta = norm->inputs.size() > 2 ? norm->inputs[2] : -1;
    AddCoded(&of->x, made);
    AddCoded(of->residual ? &*of->residual : nullptr, made);
    if (of->sum) {
      AddCoding(graph_, *of->sum->node, of->sum->linear.type, made);
    } else {
      made.inputs.insert(made.inputs.end(), {-1, -1});
    }
    made.inputs.insert(made.inputs.end(), {gamma, beta});
    AddCoding(graph_, quantize, y->type, made);
    if (!rewrite_.Replace(index_, std::move(made))) Miss("no kernel takes the codes");
  }

 private:
  void Miss(const char* why) const { rewrite_.Miss(index_, why); }

  // The codes of one scale in fp32 that a DequantizeLinear makes fp32 of.
  std::optional<CodedValue> CodesIn(int value) const {
    auto coded = CodedValueOf(graph_, rewrite_.match, value);
    const bool fits = coded && coded->linear.is_uniform() && coded->linear.is_moderate() && IsFloat(graph_, value) &&
                      IsFloat(graph_, coded->node->inputs[1]) && !graph_.value(coded->linear.codes).is_constant();
    return fits ? coded : std::nullopt;
  }

  std::optional<Summands> SummandsOf(int value) const {
    auto x = CodesIn(value);
    if (!x) {
      auto sum = SumIn(value);
      if (sum && !rewrite_.match.IsPrivate(value)) {
        Miss("somebody else reads the sum that is normalised");
        return std::nullopt;
      }
      return sum;
    }
    const ir::Node* const quantize = rewrite_.match.Maker(x->linear.codes);
    const auto codes = quantize == nullptr ? std::nullopt : QuantizationOf(graph_, *quantize, "QuantizeLinear");
    const bool alone = codes && codes->IsSame(x->linear) && IsFloat(graph_, codes->real) &&
                       IsFloat(graph_, quantize->inputs[1]) && rewrite_.match.IsPrivate(codes->real) &&
                       rewrite_.match.IsPrivate(codes->codes) && rewrite_.match.IsPrivate(value);
    auto sum = alone ? SumIn(codes->real) : std::nullopt;
    if (!sum) return Summands{.x = *std::move(x), .residual = {}, .sum = {}};
    sum->sum = *std::move(x);
    return sum;
  }

  // The sum of two tensors of codes that are known to have the same dimensions.
  std::optional<Summands> SumIn(int value) const {
    const ir::Node* const add = rewrite_.match.Maker(value, "Add");
    if (add == nullptr) return std::nullopt;
    auto a = CodesIn(add->inputs[0]), b = CodesIn(add->inputs[1]);
    if (!a || !b || !graph_.SameDims(a->linear.codes, value) || !graph_.SameDims(b->linear.codes, value)) {
      return std::nullopt;
    }
    return Summands{.x = *std::move(a), .residual = std::move(b), .sum = {}};
  }

  // Null: nothing speaks against it.
  const char* Refusal(const ir::Node& norm, const ir::Node& quantize) const {
    const int real = norm.inputs[0];
    const auto& dims = graph_.value(real).dims;
    if (!dims || dims->empty()) return "the model does not state the rank of what is normalised";
    const int64_t axis = IntAttribute(norm, "axis", -1);
    if (axis != -1 && axis != static_cast<int64_t>(dims->size()) - 1) {
      return "LayerNormalization is not along the last dimension";
    }
    for (size_t i = 1; i < norm.outputs.size(); ++i) {
      if (norm.outputs[i] >= 0) return "LayerNormalization also gives its statistics";
    }
    if (!IsFloat(graph_, norm.outputs[0]) || !IsFloat(graph_, quantize.inputs[1]))
      return "LayerNormalization is not between codes of fp32";
    for (size_t i = 1; i < norm.inputs.size(); ++i) {
      const int value = norm.inputs[i];
      if (value < 0) continue;
      if (!IsVectorOfLast(graph_, value, real) || !IsFloat(graph_, value))
        return "scale and bias are not vectors of fp32";
    }
    return nullptr;
  }

  // Codes, scale and zero point; none of them for null.
  void AddCoded(const CodedValue* value, ir::Node& made) const {
    if (value == nullptr) {
      made.inputs.insert(made.inputs.end(), {-1, -1, -1});
      return;
    }
    made.inputs.push_back(value->linear.codes);
    AddCoding(graph_, *value->node, value->linear.type, made);
  }

  const Rewriter& rewrite_;
  ir::Graph& graph_;
  int index_;
};

}  // namespace

void NormalizeCodes(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kQdq);
  for (int n = 0; n < rewrite.node_count(); ++n) Normalizer(rewrite, n).Run();
}

}  // namespace cudaep::graph
