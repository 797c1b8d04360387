#include "graph/pass/match.h"

#include <algorithm>
#include <cmath>

#include "graph/ir/constants.h"

namespace cudaep::graph {
namespace {

bool IsNear(double a, double wanted, double tolerance) { return std::abs(a - wanted) <= tolerance * std::abs(wanted); }

}  // namespace

bool ProductOf::Is(double wanted, std::span<const int> wanted_values, double tolerance) const {
  return IsNear(constant, wanted, tolerance) && values.size() == wanted_values.size() &&
         std::is_permutation(values.begin(), values.end(), wanted_values.begin());
}

const ir::Node* Matcher::Maker(int value) const {
  if (value < 0 || graph_.value(value).is_constant() || uses_.producer(value) < 0) return nullptr;
  const ir::Node& node = graph_.nodes[static_cast<size_t>(uses_.producer(value))];
  return node.on_host ? nullptr : &node;
}

const ir::Node* Matcher::Maker(int value, std::string_view op) const {
  const ir::Node* const node = Maker(value);
  return node != nullptr && node->Is(op) ? node : nullptr;
}

int Matcher::OnlyReader(int value) const {
  if (value < 0 || graph_.value(value).output >= 0) return -1;
  int reader = -1;
  for (const ir::Uses::Use& use : uses_.readers(value)) {
    if (graph_.nodes[static_cast<size_t>(use.node)].Is("Shape")) continue;
    if (reader >= 0) return -1;
    reader = use.node;
  }
  return reader;
}

std::optional<double> Matcher::Scalar(int value) const {
  const bool is_one = value >= 0 && graph_.value(value).is_constant() && graph_.value(value).constant.elems() == 1;
  return is_one ? ir::ScalarOf(graph_, value) : std::nullopt;
}

bool Matcher::IsScalar(int value, double wanted) const {
  const std::optional<double> scalar = Scalar(value);
  return scalar && IsNear(*scalar, wanted, Tolerance(value));
}

std::optional<std::vector<int64_t>> Matcher::IntsOf(const ir::Node& node, const char* attribute, size_t input) const {
  if (const auto* const found = ir::FindAttribute<std::vector<int64_t>>(node, attribute)) return *found;
  return input < node.inputs.size() ? ir::IntsOf(graph_, node.inputs[input]) : std::nullopt;
}

int Matcher::Other(const ir::Node& node, int value) {
  if (node.inputs.size() != 2 || node.inputs[0] == node.inputs[1]) return -1;
  if (node.inputs[0] == value) return node.inputs[1];
  return node.inputs[1] == value ? node.inputs[0] : -1;
}

int Matcher::PlusScalar(int value, double* scalar) const {
  const ir::Node* const add = Maker(value, "Add");
  if (add == nullptr) return -1;
  for (size_t i = 0; i < 2; ++i) {
    const std::optional<double> found = Scalar(add->inputs[i]);
    if (!found) continue;
    *scalar = *found;
    return add->inputs[1 - i];
  }
  return -1;
}

ProductOf Matcher::Factors(int value) const {
  ProductOf product;
  Multiply(value, true, product);
  return product;
}

ProductOf Matcher::Scaled(int value) const {
  ProductOf product = Factors(value);
  const bool scales = product.values.size() == 1 && graph_.SameDims(product.values[0], value);
  return scales ? product : ProductOf{.values = {value}};
}

void Matcher::Multiply(int value, bool is_root, ProductOf& product) const {
  if (const std::optional<double> scalar = Scalar(value)) {
    product.constant *= *scalar;
    return;
  }
  const ir::Node* const node = is_root || IsPrivate(value) ? Maker(value) : nullptr;
  if (node != nullptr && node->Is("Mul")) {
    Multiply(node->inputs[0], false, product);
    return Multiply(node->inputs[1], false, product);
  }
  if (node != nullptr && node->Is("Div")) {
    if (const std::optional<double> divisor = Scalar(node->inputs[1]); divisor && *divisor != 0) {
      product.constant /= *divisor;
      return Multiply(node->inputs[0], false, product);
    }
  }
  if (node != nullptr && node->Is("Pow")) {
    const int power = IsScalar(node->inputs[1], 2) ? 2 : IsScalar(node->inputs[1], 3) ? 3 : 0;
    product.values.insert(product.values.end(), static_cast<size_t>(power), node->inputs[0]);
    if (power != 0) return;
  }
  product.values.push_back(value);
}

double Matcher::Tolerance(int value) const {
  switch (graph_.value(value).type) {
    case DataType::kBFloat16:
      return 8e-3;
    case DataType::kFloat16:
      return 1e-3;
    default:
      return 1e-5;
  }
}

bool IsVectorOfLast(const ir::Graph& graph, int value, int of) {
  if (value < 0) return false;
  const auto &dims = graph.value(value).dims, &whole = graph.value(of).dims;
  return dims && whole && dims->size() == 1 && !whole->empty() && dims->front().known() &&
         dims->front().size == whole->back().size;
}

}  // namespace cudaep::graph
