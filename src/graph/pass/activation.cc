#include "graph/pass/activation.h"

#include <array>
#include <numbers>

#include "graph/pass/rewrite.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

constexpr double kRootOfHalf = std::numbers::sqrt2 / 2;
constexpr double kRootOfTwoOverPi = 0.7978845608028654;
constexpr double kCubic = 0.044715;

// An operator that is applied to x.
struct Found {
  int x = -1;
  const char* domain = ops::kOnnxDomain;
  const char* op = nullptr;
  int version = 1;
  ops::Attributes attributes = {};
};

// Activations that are spelled out.
class SpelledMatch {
 public:
  explicit SpelledMatch(const Matcher& match) : match_(match) {}

  std::optional<Found> Find(int value) const {
    const ProductOf product = match_.Factors(value);
    if (product.values.size() != 2) return std::nullopt;
    for (size_t i = 0; i < 2; ++i) {
      const int x = product.values[i], gate = product.values[1 - i];
      if (x == gate) continue;
      const double tolerance = match_.Tolerance(x);
      if (product.Is(1, product.values, tolerance)) {
        if (const std::optional<float> alpha = SigmoidOf(gate, x)) {
          return Found{x, ops::kMicrosoftDomain, "QuickGelu", 1, {{"alpha", *alpha}}};
        }
      }
      if (!product.Is(0.5, product.values, tolerance)) continue;
      double one = 0;
      const int inner = match_.PlusScalar(gate, &one);
      if (inner < 0 || one != 1) continue;
      if (IsErf(inner, x)) return Found{x, ops::kOnnxDomain, "Gelu", 20, {{"approximate", std::string("none")}}};
      if (IsTanh(inner, x)) return Found{x, ops::kOnnxDomain, "Gelu", 20, {{"approximate", std::string("tanh")}}};
    }
    return std::nullopt;
  }

 private:
  std::optional<float> SigmoidOf(int gate, int x) const {
    const ir::Node* const sigmoid = match_.Maker(gate, "Sigmoid");
    if (sigmoid == nullptr) return std::nullopt;
    if (sigmoid->inputs[0] == x) return 1.0f;
    const ProductOf inner = match_.Factors(sigmoid->inputs[0]);
    if (inner.values != std::vector<int>{x}) return std::nullopt;
    return static_cast<float>(inner.constant);
  }

  bool IsErf(int value, int x) const {
    const ir::Node* const erf = match_.Maker(value, "Erf");
    const std::array<int, 1> once{x};
    return erf != nullptr && match_.Factors(erf->inputs[0]).Is(kRootOfHalf, once, match_.Tolerance(x));
  }

  // tanh(c * (x + a * x^3)), also as tanh(c * x * (1 + a * x^2)).
  bool IsTanh(int value, int x) const {
    const ir::Node* const tanh = match_.Maker(value, "Tanh");
    if (tanh == nullptr) return false;
    const double tolerance = match_.Tolerance(x);
    const ProductOf outer = match_.Factors(tanh->inputs[0]);
    if (outer.values.empty() || !outer.Is(kRootOfTwoOverPi, outer.values, tolerance)) return false;
    if (outer.values.size() == 1) {
      const ir::Node* const add = match_.Maker(outer.values[0], "Add");
      const int cubic = add == nullptr ? -1 : Matcher::Other(*add, x);
      const std::array<int, 3> thrice{x, x, x};
      return cubic >= 0 && match_.Factors(cubic).Is(kCubic, thrice, tolerance);
    }
    if (outer.values.size() != 2 || (outer.values[0] != x && outer.values[1] != x)) return false;
    double one = 0;
    const int square = match_.PlusScalar(outer.values[outer.values[0] == x ? 1 : 0], &one);
    const std::array<int, 2> twice{x, x};
    return square >= 0 && one == 1 && match_.Factors(square).Is(kCubic, twice, tolerance);
  }

  const Matcher& match_;
};

}  // namespace

void FuseActivations(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kActivation);
  const SpelledMatch match(rewrite.match);
  for (int n = 0; n < rewrite.node_count(); ++n) {
    const ir::Node& node = rewrite.node(n);
    if (node.on_host || !(node.Is("Mul") || node.Is("Div"))) continue;
    std::optional<Found> found = match.Find(node.outputs[0]);
    if (!found) continue;
    if (!graph.SameDims(found->x, node.outputs[0])) {
      rewrite.Miss(n, "its operand is not stated to have the result's dimensions");
      continue;
    }
    ir::Node fused = rewrite.Instead(n, found->domain, found->op, found->version);
    fused.attributes = std::move(found->attributes);
    fused.inputs = {found->x};
    rewrite.Replace(n, std::move(fused));
  }
}

}  // namespace cudaep::graph
