#include "graph/pass/qdq_attention.h"

#include <numbers>

#include "graph/pass/quantization.h"
#include "graph/pass/rewrite.h"
#include "kernels/quant/code_attention.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

using Perm = std::vector<int64_t>;
constexpr size_t kRank = 4;
constexpr double kMostExact = 0x1p24;  // of whole numbers in fp32

// What codes of a tensor stand for.
struct Coding {
  double scale = 1;
  int32_t zero = 0;
  DataType type = DataType::kUndefined;

  bool operator==(const Coding&) const = default;
  // The step that rounds numbers to these codes, which are multiplied by `factor` before.
  std::vector<float> Step(double factor) const {
    const auto least = static_cast<float>(LowestCode(type) - zero);
    return {static_cast<float>(factor / scale), least, least + 255};
  }
};

// A product of two tensors of codes.
struct CodeProduct {
  const ir::Node* node = nullptr;
  Coding a, b, y;
  Perm a_perm = {0, 1, 2, 3}, b_perm = {0, 1, 2, 3}, y_perm = {0, 1, 2, 3};
};

class Attender {
 public:
  explicit Attender(const Rewriter& rewrite) : rewrite_(rewrite), graph_(rewrite.graph) {}

  void Visit(int index) {
    const ir::Node& softmax = rewrite_.node(index);
    masked_ = softmax.Is("QuantizedSoftmax", ops::kFusedDomain);
    if (!masked_ && !IsPlainSoftmax(softmax)) return;
    const int next = rewrite_.match.OnlyReader(softmax.outputs[0]);
    const auto values = next < 0 ? std::nullopt : ProductOf(&rewrite_.node(next));
    if (!values || values->node->inputs[0] != softmax.outputs[0]) return;
    made_ = rewrite_.Instead(next, ops::kFusedDomain, "QuantizedAttention", 1);
    if (const char* const why = Describe(softmax, *values)) return rewrite_.Miss(next, why);
    if (!rewrite_.Replace(next, std::move(made_))) rewrite_.Miss(next, "no kernel takes the attention of codes");
  }

 private:
  static bool IsPlainSoftmax(const ir::Node& node) {
    const int64_t axis = ir::IntAttribute(node, "axis", -1);
    return node.Is("QLinearSoftmax", ops::kMicrosoftDomain) && (axis == -1 || axis == kRank - 1);
  }

  std::optional<Coding> CodingOf(int codes, int scale, int zero) const {
    const auto number = rewrite_.match.Scalar(scale);
    if (!number) return std::nullopt;
    Coding coding{.scale = *number, .zero = 0, .type = graph_.value(codes).type};
    if (zero >= 0) {
      const auto zeros = CodesOf(graph_, zero);
      if (!zeros || zeros->size() != 1) return std::nullopt;
      coding.zero = zeros->front();
    }
    return coding;
  }

  std::optional<CodeProduct> ProductOf(const ir::Node* node) const {
    if (node == nullptr) return std::nullopt;
    const bool turned = node->Is("QuantizedMatMul", ops::kFusedDomain);
    if (!turned && !node->Is("QLinearMatMul")) return std::nullopt;
    const auto &a = graph_.value(node->inputs[0]).dims, &b = graph_.value(node->inputs[3]).dims;
    if (!a || !b || a->size() != kRank || b->size() != kRank) return std::nullopt;
    const auto zero = [&](size_t input) { return input < node->inputs.size() ? node->inputs[input] : -1; };
    const auto of_a = CodingOf(node->inputs[0], node->inputs[1], zero(2)),
               of_b = CodingOf(node->inputs[3], node->inputs[4], zero(5)),
               of_y = CodingOf(node->outputs[0], node->inputs[6], zero(7));
    if (!of_a || !of_b || !of_y) return std::nullopt;
    CodeProduct product{.node = node, .a = *of_a, .b = *of_b, .y = *of_y};
    if (turned) {
      product.a_perm = *ir::FindAttribute<Perm>(*node, "a_perm");
      product.b_perm = *ir::FindAttribute<Perm>(*node, "b_perm");
      product.y_perm = *ir::FindAttribute<Perm>(*node, "y_perm");
    }
    return product;
  }

  std::optional<Coding> AttributeCoding(const ir::Node& node, const std::string& name, DataType type) const {
    const float* const scale = ir::FindAttribute<float>(node, (name + "_scale").c_str());
    if (scale == nullptr) return std::nullopt;
    const int64_t zero = ir::IntAttribute(node, (name + "_zero").c_str(), 0);
    return Coding{.scale = *scale, .zero = static_cast<int32_t>(zero), .type = type};
  }

  // Makes the node of the softmax, what makes its input, and the product that reads it. What speaks against it.
  const char* Describe(const ir::Node& softmax, const CodeProduct& values) {
    const DataType x_type = graph_.value(softmax.inputs[0]).type, y_type = graph_.value(softmax.outputs[0]).type;
    std::optional<Coding> x, shares;
    if (masked_) {
      x = AttributeCoding(softmax, "x", x_type), shares = AttributeCoding(softmax, "y", y_type);
    } else {
      x = CodingOf(softmax.inputs[0], softmax.inputs[1], softmax.inputs[2]);
      shares = CodingOf(softmax.outputs[0], softmax.inputs[3], softmax.inputs[4]);
    }
    if (!x || !shares || !(*shares == values.a)) return "shares have another scale or zero point where they are read";
    const auto scores = ScoresOf(softmax.inputs[0], *x);
    if (!scores) return "scores are no product of codes, or are read by others";
    if (scores->y_perm != Perm{0, 1, 2, 3} || values.a_perm != Perm{0, 1, 2, 3}) return "scores are transposed";
    const Perm k_perm = {scores->b_perm[0], scores->b_perm[1], scores->b_perm[3], scores->b_perm[2]};
    if (k_perm.back() != kRank - 1 || values.b_perm.back() != kRank - 1) {
      return "elements of a key or a value do not lie side by side";
    }
    for (const Coding& coding : {scores->a, scores->b, scores->y, values.b, values.y, *x, *shares}) {
      if (!kernels::IsModerateScale(coding.scale)) return "scales are too large or too small";
    }
    for (const Coding& coding : {scores->a, scores->b, values.b}) {
      if (coding.type != DataType::kInt8) return "queries, keys or values are not of int8";
    }
    if (2 / shares->scale * 255 > kMostExact) return "sums of shares may not be exact";
    if (!HaveHeads(*scores, k_perm, values))
      return "heads are not known to be alike, of 16 elements or a multiple, and at most 64";
    made_.inputs = {scores->node->inputs[0], scores->node->inputs[3], values.node->inputs[3]};
    made_.attributes["q_perm"] = scores->a_perm;
    made_.attributes["k_perm"] = k_perm;
    made_.attributes["v_perm"] = values.b_perm;
    made_.attributes["y_perm"] = values.y_perm;
    made_.attributes["q_zero"] = int64_t{scores->a.zero};
    made_.attributes["k_zero"] = int64_t{scores->b.zero};
    made_.attributes["v_zero"] = int64_t{values.b.zero};
    made_.attributes["y_zero"] = int64_t{values.y.zero};
    made_.attributes["scores"] = scores->y.Step(scores->a.scale * scores->b.scale);
    made_.attributes["shares"] = shares->Step(1);
    made_.attributes["result"] = values.y.Step(values.a.scale * values.b.scale);
    double scale = x->scale;
    if (masked_) {
      const auto sum = AttributeCoding(softmax, "sum", DataType::kUint8);
      if (!sum || !AddMask(softmax, *scores, *sum)) return "the mask is not one of rank 4 by key";
      made_.attributes["masked"] = sum->Step(x->scale);
      scale = sum->scale;
    }
    made_.attributes["exponent"] = static_cast<float>(scale * std::numbers::log2e);
    return nullptr;
  }

  // The product whose codes, or those of its product with a number, have coding `x`; sets "scaled" in the latter case.
  std::optional<CodeProduct> ScoresOf(int codes, const Coding& x) {
    if (!rewrite_.match.IsPrivate(codes)) return std::nullopt;
    if (const auto direct = ProductOf(rewrite_.match.Maker(codes))) {
      return direct->y == x ? direct : std::nullopt;
    }
    const ir::Node* const quantize = rewrite_.match.Maker(codes, "QuantizeLinear");
    const auto to = quantize == nullptr ? std::nullopt : QuantizationOf(graph_, *quantize, "QuantizeLinear");
    if (!to || !to->is_uniform() || !(Coding{to->scale(), to->zero(), to->type} == x)) return std::nullopt;
    double number = 0;
    const int before = TimesNumber(to->real, &number);
    const auto from = before < 0 ? std::nullopt : CodedValueOf(graph_, rewrite_.match, before);
    if (!from || !from->linear.is_uniform() || !rewrite_.match.IsPrivate(to->real) ||
        !rewrite_.match.IsPrivate(before) || !rewrite_.match.IsPrivate(from->linear.codes)) {
      return std::nullopt;
    }
    const auto product = ProductOf(rewrite_.match.Maker(from->linear.codes));
    const Coding read{from->linear.scale(), from->linear.zero(), from->linear.type};
    if (!product || !(product->y == read)) return std::nullopt;
    made_.attributes["scaled"] = x.Step(read.scale * number);
    return product;
  }

  // Of a Mul or Div by a positive number the other operand; -1: it is none.
  int TimesNumber(int value, double* number) const {
    const ir::Node* const node = rewrite_.match.Maker(value);
    if (node == nullptr || graph_.value(value).type != DataType::kFloat) return -1;
    const bool divides = node->Is("Div");
    if (!divides && !node->Is("Mul")) return -1;
    for (const int operand : {1, 0}) {
      const auto scalar = rewrite_.match.Scalar(node->inputs[static_cast<size_t>(operand)]);
      if (!scalar || !(*scalar > 0) || (divides && operand == 0)) continue;
      *number = divides ? 1 / *scalar : *scalar;
      return node->inputs[static_cast<size_t>(1 - operand)];
    }
    return -1;
  }

  bool HaveHeads(const CodeProduct& scores, const Perm& k_perm, const CodeProduct& values) const {
    const auto dim = [&](int value, const Perm& perm, size_t axis) -> const ir::Dim& {
      return (*graph_.value(value).dims)[static_cast<size_t>(perm[axis])];
    };
    const int q = scores.node->inputs[0], k = scores.node->inputs[3], v = values.node->inputs[3];
    for (size_t axis = 0; axis < kRank; ++axis) {
      const ir::Dim& of_k = dim(k, k_perm, axis);
      if (!of_k.Equals(dim(v, values.b_perm, axis))) return false;
      if (axis != 2 && !of_k.Equals(dim(q, scores.a_perm, axis))) return false;
    }
    const int64_t size = dim(k, k_perm, kRank - 1).size;
    return size > 0 && size <= kernels::kCodeAttentionHead && size % kernels::kCodeAttentionPack == 0;
  }

  // One number, or code, for each key, the same for all heads and queries.
  bool AddMask(const ir::Node& softmax, const CodeProduct& scores, const Coding& sum) {
    const int mask = softmax.inputs[1];
    const auto& dims = graph_.value(mask).dims;
    if (!dims || dims->size() != kRank || (*dims)[1].size != 1 || (*dims)[2].size != 1) return false;
    const ir::Dim& batch = (*graph_.value(scores.node->inputs[0]).dims)[static_cast<size_t>(scores.a_perm[0])];
    if ((*dims)[0].size != 1 && !(*dims)[0].Equals(batch)) return false;
    made_.inputs.push_back(mask);
    const auto coded = AttributeCoding(softmax, "mask", graph_.value(mask).type);
    made_.attributes["mask_factor"] = static_cast<float>((coded ? coded->scale : 1.0) / sum.scale);
    made_.attributes["mask_zero"] = int64_t{coded ? coded->zero : 0};
    return true;
  }

  const Rewriter& rewrite_;
  const ir::Graph& graph_;
  bool masked_ = false;
  ir::Node made_;
};

}  // namespace

void AttendCodes(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kQdq);
  Attender attender(rewrite);
  for (int n = 0; n < rewrite.node_count(); ++n) attender.Visit(n);
}

}  // namespace cudaep::graph
