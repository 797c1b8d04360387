#include "graph/pass/attention_scores.h"

#include <algorithm>
#include <array>
#include <span>

#include "graph/pass/heads_match.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

constexpr int kMostTerms = 4;

// MatMul, or what the host's optimisers make of it, with the scale and the transposed keys in it.
bool IsProduct(const ir::Node& node) {
  if (node.Is("MatMul")) return true;
  const bool is_fused = node.Is("FusedMatMul", ops::kMicrosoftDomain);
  return is_fused && std::ranges::none_of(std::array{"transA", "transBatchA", "transBatchB"},
                                          [&](const char* name) { return IntAttribute(node, name, 0) != 0; });
}

}  // namespace

std::optional<AttentionScores> ScoresMatch::Match(int scores) const {
  AttentionScores found;
  return Peel(scores, kMostTerms, found) ? std::optional(std::move(found)) : std::nullopt;
}

bool ScoresMatch::Peel(int scores, int depth, AttentionScores& found) const {
  int split = -1;
  if (!PeelBare(Bare(scores, &split), depth, found)) return false;
  if (split >= 0) found.split = split;
  return true;
}

bool ScoresMatch::PeelBare(int scores, int depth, AttentionScores& found) const {
  if (auto product = MatchProduct(scores)) {
    found = *std::move(product);
    return true;
  }
  const ir::Node* const node = match_.Maker(scores);
  if (node == nullptr || depth == 0 || !match_.IsPrivate(scores)) return false;
  using Kind = ScoreTerm::Kind;
  if (node->Is("Add")) {
    return PeelOne(*node, 0, {Kind::kAdded, node->inputs[1]}, depth, found) ||
           PeelOne(*node, 1, {Kind::kAdded, node->inputs[0]}, depth, found);
  }
  if (node->Is("Where")) {
    const int condition = node->inputs[0], lowest = IsLowest(node->inputs[1]) ? 1 : IsLowest(node->inputs[2]) ? 2 : 0;
    if (lowest == 0) return false;
    const Kind kind = lowest == 1 ? Kind::kHidden : Kind::kShown;
    return PeelOne(*node, lowest == 1 ? 2 : 1, {kind, condition, node->inputs[static_cast<size_t>(lowest)]}, depth,
                   found);
  }
  if (node->Is("Max") && node->inputs.size() == 2) {
    const size_t lowest = IsLowest(node->inputs[0]) ? 0 : 1;
    return IsLowest(node->inputs[lowest]) &&
           PeelOne(*node, 1 - lowest, {Kind::kRaised, -1, node->inputs[lowest]}, depth, found);
  }
  return false;
}

bool ScoresMatch::PeelOne(const ir::Node& node, size_t operand, ScoreTerm term, int depth,
                          AttentionScores& found) const {
  term.scores = node.inputs[operand];
  const auto &result = graph_.value(node.outputs[0]).dims, &scores = graph_.value(term.scores).dims;
  if (!result || !scores || result->size() != scores->size() || !Peel(term.scores, depth - 1, found)) return false;
  term.flat = scores->size() == 3;
  found.terms.push_back(term);
  return true;
}

// Through factors, casts and views.
int ScoresMatch::Unscaled(int value, double& scale) const {
  for (;;) {
    const ProductOf product = match_.Scaled(value);
    scale *= product.constant;
    const int bare = Bare(product.values[0]);
    if (bare == value) return value;
    value = bare;
  }
}

std::optional<AttentionScores> ScoresMatch::MatchProduct(int scores) const {
  AttentionScores found;
  found.product = Unscaled(scores, found.scale);
  if (const ir::Node* const tanh = match_.Maker(found.product, "Tanh")) {
    if (found.scale <= 0 || !match_.IsPrivate(found.product)) return std::nullopt;
    found.softcap = found.scale;
    found.product = Unscaled(tanh->inputs[0], found.scale);
  }
  const ir::Node* const product = match_.Maker(found.product);
  if (product == nullptr || !IsProduct(*product)) return std::nullopt;
  const ProductOf q = match_.Scaled(product->inputs[0]), keys = match_.Scaled(product->inputs[1]);
  found.scale *= q.constant * keys.constant * FloatAttribute(*product, "alpha", 1);
  found.q = q.values[0];
  found.keys = keys.values[0];
  found.keys_are_rows = IntAttribute(*product, "transB", 0) != 0;
  return found;
}

bool ScoresMatch::IsOfProduct(int scores) const {
  constexpr int kMostSteps = 6;
  for (int i = 0; i < kMostSteps; ++i) {
    const ir::Node* const maker = match_.Maker(scores);
    if (maker == nullptr) return false;
    if (IsProduct(*maker)) return true;
    constexpr std::string_view kSteps[] = {"Add", "Cast", "Div", "Max", "Mul", "Reshape", "Sub", "Tanh", "Where"};
    if (!maker->domain.empty() || std::ranges::find(kSteps, maker->op_type) == std::end(kSteps)) return false;
    const auto operands = std::span(maker->inputs).subspan(maker->Is("Where") ? 1 : 0);
    const auto made =
        std::ranges::find_if(operands, [&](int input) { return input >= 0 && match_.Maker(input) != nullptr; });
    if (made == operands.end()) return false;
    scores = *made;
  }
  return false;
}

int ScoresMatch::Bare(int value, int* split) const {
  const DataTypeSet floats = kFloatTypesNoDouble;
  for (const ir::Node* maker = match_.Maker(value); maker != nullptr; maker = match_.Maker(value)) {
    const bool is_cast = maker->Is("Cast") && floats.Contains(graph_.value(value).type) &&
                         floats.Contains(graph_.value(maker->inputs[0]).type);
    const bool is_reshape = maker->Is("Reshape") && match_.IsPrivate(value);
    const bool splits = is_reshape && HoldsHeadsApart(graph_, value, maker->inputs[0]);
    const bool is_view = splits || (is_reshape && HoldsHeadsApart(graph_, maker->inputs[0], value));
    if (!is_cast && !is_view) break;
    if (splits && split != nullptr) *split = match_.MakerIndex(value);
    value = maker->inputs[0];
  }
  return value;
}

// Scores that are added to it are rounded away, so that a row of nothing else has equal weights. float16 has no such
// number but infinity.
bool ScoresMatch::IsLowest(int value) const {
  const std::optional<double> scalar = match_.Scalar(value);
  return scalar && *scalar <= -1e30;
}

}  // namespace cudaep::graph
