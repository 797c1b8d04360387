#include "graph/pass/qdq_products.h"

#include <algorithm>
#include <cmath>

#include "graph/ir/constants.h"
#include "graph/pass/quantization.h"
#include "graph/pass/rewrite.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

int ScaleOf(const CodedValue& coded) { return coded.node->inputs[1]; }
int ZeroOf(const CodedValue& coded) { return coded.node->inputs.size() > 2 ? coded.node->inputs[2] : -1; }

// What a product is of.
struct Product {
  int index = -1;
  CodedValue a, b;
  bool transpose_b = false;
  float alpha = 1;
  int c = -1;
};

ops::Attributes To(DataType type) { return {{"to", static_cast<int64_t>(type)}}; }

// Nodes that make new values for each other; the last of them has the outputs of what they replace.
class Nodes {
 public:
  Nodes(ir::Graph& graph, const ir::Node& like) : graph_(graph), like_(like) {}

  int Add(const char* domain, const char* op, int version, std::vector<int> inputs, DataType type,
          ops::Attributes attributes = {}) {
    const ir::Value& result = graph_.value(like_.outputs[0]);
    const int made = graph_.AddValue({.name = result.name, .type = type, .dims = result.dims});
    all_.push_back({.name = like_.name,
                    .domain = domain,
                    .op_type = op,
                    .since_version = version,
                    .attributes = std::move(attributes),
                    .inputs = std::move(inputs),
                    .outputs = {made}});
    return made;
  }
  // Puts them in place of the node, whose outputs the last one makes.
  bool Replace(const Rewriter& rewrite, int index) {
    ir::Node last = std::move(all_.back());
    all_.pop_back();
    last.outputs = like_.outputs;
    return rewrite.Replace(index, std::move(last), std::move(all_));
  }

 private:
  ir::Graph& graph_;
  const ir::Node like_;
  std::vector<ir::Node> all_;
};

class Multiplier {
 public:
  explicit Multiplier(const Rewriter& rewrite) : rewrite_(rewrite), graph_(rewrite.graph) {}

  void Visit(int index) const {
    const ir::Node& node = rewrite_.node(index);
    if (node.on_host || !(node.Is("MatMul") || node.Is("Gemm"))) return;
    auto a = CodedValueOf(graph_, rewrite_.match, node.inputs[0]),
         b = CodedValueOf(graph_, rewrite_.match, node.inputs[1]);
    if (!a || !b) return;
    Product product{.index = index, .a = *std::move(a), .b = *std::move(b)};
    if (const char* const why = Refusal(node, product)) return rewrite_.Miss(index, why);
    product.transpose_b = ir::IntAttribute(node, "transB", 0) != 0;
    product.alpha = ir::FloatAttribute(node, "alpha", 1.0f);
    if (node.inputs.size() > 2) product.c = node.inputs[2];
    const bool done = IsForLibrary(product) ? MultiplyWeights(product) : Multiply(product);
    if (!done) rewrite_.Miss(index, "no kernel takes the integers");
  }

 private:
  // Null: nothing speaks against it.
  const char* Refusal(const ir::Node& node, const Product& p) const {
    const auto &a = graph_.value(p.a.linear.codes).dims, &b = graph_.value(p.b.linear.codes).dims;
    const bool transposed = ir::IntAttribute(node, "transB", 0) != 0;
    if (!a || !b || a->empty() || b->empty()) return "the model does not state the ranks of both operands";
    if (!p.a.linear.is_uniform()) return "the left operand has several scales";
    const bool of_columns = b->size() == 2 && p.b.linear.axis == (transposed ? 0u : 1u);
    if (!p.b.linear.is_uniform() && !of_columns) return "scales of the right operand are not those of columns";
    if (ir::IntAttribute(node, "transA", 0) != 0) return "the left operand is transposed";
    const bool fits = a->back().known() && a->back().size <= kMostSummed;
    if (!fits && !IsSoftmax(p.a)) return "sums may not fit 32 bits";
    if (transposed && !graph_.value(p.b.linear.codes).is_constant()) return "the right operand is transposed";
    const bool has_c = node.inputs.size() > 2 && node.inputs[2] >= 0;
    if (has_c && ir::FloatAttribute(node, "beta", 1.0f) != 1.0f) return "beta is not 1";
    return nullptr;
  }

  // Whether rows are shares of 1, whose sums fit however many they are: only shares of half a code and more count, each
  // as at most twice as much, and 2 / scale * 255 is below 2^31.
  bool IsSoftmax(const CodedValue& a) const {
    const ir::Node* const quantize = rewrite_.match.Maker(a.linear.codes);
    const auto made = quantize == nullptr ? std::nullopt : QuantizationOf(graph_, *quantize, "QuantizeLinear");
    const ir::Node* const softmax = made ? rewrite_.match.Maker(made->real, "Softmax") : nullptr;
    if (softmax == nullptr || a.linear.scale() < 1e-6f) return false;
    return IsLastAxis(ir::IntAttribute(*softmax, "axis", softmax->since_version < 13 ? 1 : -1),
                      graph_.value(a.linear.codes).dims->size());
  }

  // Its sums are of the codes as they are, which of shares of 1 may be -128 with few that count.
  bool IsForLibrary(const Product& p) const {
    const ir::Value& b = graph_.value(p.b.linear.codes);
    return p.a.linear.type == DataType::kInt8 && p.b.linear.type == DataType::kInt8 && !p.b.linear.has_zeros() &&
           b.is_constant() && b.constant.rank == 2 && b.constant.dims()[p.transpose_b ? 1 : 0] <= kMostSummed;
  }

  // (A - a_zero) B = A B - a_zero * (column sums of B), both whole numbers: what is left of two large ones is exact,
  // and rows of zeros give zeros.
  bool MultiplyWeights(const Product& p) const {
    const std::vector<int32_t> codes = *CodesOf(graph_, p.b.linear.codes);
    const ops::TensorView weights = graph_.value(p.b.linear.codes).constant;
    const int64_t columns = weights.dims()[p.transpose_b ? 0 : 1], inner = weights.dims()[p.transpose_b ? 1 : 0];
    const int64_t column_step = p.transpose_b ? inner : 1, inner_step = p.transpose_b ? 1 : columns;
    std::vector<double> scales, shifts;
    for (int64_t n = 0; n < columns; ++n) {
      int64_t sum = 0;
      for (int64_t k = 0; k < inner; ++k) sum += codes[static_cast<size_t>(n * column_step + k * inner_step)];
      const float b_scale = p.b.linear.scales[p.b.linear.is_uniform() ? 0 : static_cast<size_t>(n)];
      scales.push_back(double{p.alpha} * p.a.linear.scale() * b_scale);
      shifts.push_back(-static_cast<double>(sum * p.a.linear.zero()));
    }
    // Beyond, neither what is taken off is a number of fp32 nor what it is taken off from.
    const auto is_exact = [](double shift) { return std::abs(shift) <= 0x1p24; };
    if (!std::ranges::all_of(shifts, is_exact)) return Multiply(p);
    const std::string name = graph_.value(p.b.linear.codes).name;
    const DataType type = graph_.value(rewrite_.node(p.index).outputs[0]).type;
    const auto vector = [&](const std::vector<double>& numbers) {
      return graph_.AddConstant(name, ir::MakeNumbers(DataType::kFloat, {columns}, numbers));
    };
    Nodes nodes(graph_, rewrite_.node(p.index));
    int y = nodes.Add(ops::kOnnxDomain, "MatMulInteger", 10, {p.a.linear.codes, Weights(p)}, DataType::kInt32);
    y = nodes.Add(ops::kOnnxDomain, "Cast", 13, {y}, DataType::kFloat, To(DataType::kFloat));
    if (p.a.linear.zero() != 0) y = nodes.Add(ops::kOnnxDomain, "Add", 14, {y, vector(shifts)}, DataType::kFloat);
    y = nodes.Add(ops::kOnnxDomain, "Mul", 14, {y, vector(scales)}, DataType::kFloat);
    if (type != DataType::kFloat) y = nodes.Add(ops::kOnnxDomain, "Cast", 13, {y}, type, To(type));
    if (p.c >= 0) nodes.Add(ops::kOnnxDomain, "Add", 14, {y, p.c}, type);
    return nodes.Replace(rewrite_, p.index);
  }

  bool Multiply(const Product& p) const {
    const DataType type = graph_.value(rewrite_.node(p.index).outputs[0]).type;
    constexpr DataTypeSet kResults{DataType::kFloat, DataType::kFloat16};
    const bool one_type = graph_.value(ScaleOf(p.a)).type == graph_.value(ScaleOf(p.b)).type;
    if (p.alpha != 1.0f || !one_type) return false;
    if (p.c < 0 && MultiplyToCodes(p)) return true;
    if (!kResults.Contains(type)) return false;
    Nodes nodes(graph_, rewrite_.node(p.index));
    const int y = nodes.Add(ops::kMicrosoftDomain, "MatMulIntegerToFloat", 1,
                            {p.a.linear.codes, Weights(p), ScaleOf(p.a), ScaleOf(p.b), ZeroOf(p.a), ZeroOf(p.b)}, type);
    if (p.c >= 0) nodes.Add(ops::kOnnxDomain, "Add", 14, {y, p.c}, type);
    return nodes.Replace(rewrite_, p.index);
  }

  // Where nobody but one QuantizeLinear reads the product.
  bool MultiplyToCodes(const Product& p) const {
    const int next = rewrite_.match.OnlyReader(rewrite_.node(p.index).outputs[0]);
    const auto result = next < 0 ? std::nullopt : QuantizationOf(graph_, rewrite_.node(next), "QuantizeLinear");
    if (!result || !result->is_uniform()) return false;
    const ir::Node& quantize = rewrite_.node(next);
    const int zero = quantize.inputs.size() > 2 ? quantize.inputs[2] : -1;
    if (graph_.value(ScaleOf(p.a)).type != graph_.value(quantize.inputs[1]).type) return false;
    Nodes nodes(graph_, quantize);
    nodes.Add(
        ops::kOnnxDomain, "QLinearMatMul", 21,
        {p.a.linear.codes, ScaleOf(p.a), ZeroOf(p.a), Weights(p), ScaleOf(p.b), ZeroOf(p.b), quantize.inputs[1], zero},
        result->type);
    return nodes.Replace(rewrite_, next);
  }

  // B as it is multiplied; a constant where it is transposed.
  int Weights(const Product& p) const {
    if (!p.transpose_b) return p.b.linear.codes;
    const ir::Value& value = graph_.value(p.b.linear.codes);
    const ops::TensorView view = value.constant;
    const auto rows = static_cast<size_t>(view.dims()[0]), columns = static_cast<size_t>(view.dims()[1]);
    ops::HostTensor tensor{.type = view.type, .dims = {view.dims()[1], view.dims()[0]}, .data = {}};
    tensor.data.resize(rows * columns);
    const auto* const from = static_cast<const std::byte*>(view.data);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < columns; ++c) tensor.data[c * rows + r] = from[r * columns + c];
    }
    return graph_.AddConstant(value.name, std::move(tensor));
  }

  const Rewriter& rewrite_;
  ir::Graph& graph_;
};

}  // namespace

void MultiplyCodes(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kQdq);
  const Multiplier multiplier(rewrite);
  for (int n = 0; n < rewrite.node_count(); ++n) multiplier.Visit(n);
  rewrite.PlaceNodesInFront();
}

}  // namespace cudaep::graph
