#include "graph/pass/attention_match.h"

#include <algorithm>
#include <array>
#include <span>

#include "core/strings.h"
#include "graph/ir/elements.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

// What every device's shared memory holds.
constexpr int64_t kMostHeadSize = 256;
// The host's optimisers' sum and softmax, which broadcasts as the sum does.
constexpr const char* kBiasSoftmax = "BiasSoftmax";

using Dims4 = std::vector<ir::Dim>;

class AttentionMatch {
 public:
  explicit AttentionMatch(const Rewriter& rewrite) : rewrite_(rewrite), graph_(rewrite.graph), match_(rewrite.match) {}

  std::optional<AttentionCore> Match(int index) const {
    const ir::Node& node = rewrite_.node(index);
    if (node.on_host || !node.Is("MatMul")) return std::nullopt;
    AttentionCore core;
    const ir::Node* const softmax = SoftmaxOf(node.inputs[0], core);
    if (softmax == nullptr) return std::nullopt;
    core.v = node.inputs[1];
    const bool is_biased = softmax->op_type == kBiasSoftmax;
    const int scores = is_biased ? softmax->inputs[0] : WithoutWindows(WithoutCasts(softmax->inputs[0]), core);
    const bool matches =
        is_biased ? MatchBiased(*softmax, core) : MatchScores(scores, core) || MatchMasked(scores, core);
    if (!matches) {
      if (!HasFourDims(softmax->outputs[0]) || !IsOfProduct(scores)) return std::nullopt;
      rewrite_.Miss(index, is_biased ? "the bias of the softmax is not repeated as sums broadcast"
                                     : "the scores are no product with a constant scale and what is added to it");
      return std::nullopt;
    }
    const bool softmax_is_private =
        core.guarded ? IsReadByGuardAlone(softmax->outputs[0]) : match_.IsPrivate(softmax->outputs[0]);
    if (!match_.IsPrivate(node.inputs[0]) || !softmax_is_private) {
      rewrite_.Miss(index, "others read the weights");
      return std::nullopt;
    }
    if (core.window_mask >= 0 && core.mask >= 0 && !(core.mask_fits && IsOfOneEntry(core.mask))) {
      rewrite_.Miss(index, "the mask beside that of windows is not stated to be of one batch entry");
      return std::nullopt;
    }
    if (!MatchKeys(core)) {
      rewrite_.Miss(index, "the keys are not transposed as attention has them");
      return std::nullopt;
    }
    if (!MatchSizes(core)) {
      rewrite_.Miss(index, "queries, keys and values are not stated to fit");
      return std::nullopt;
    }
    if (core.head_size > kMostHeadSize || core.v_head_size > kMostHeadSize) {
      rewrite_.Miss(index, StrCat("heads have ", std::max(core.head_size, core.v_head_size), " elements, more than ",
                                  kMostHeadSize));
      return std::nullopt;
    }
    if (!MatchTypes(core)) {
      rewrite_.Miss(index, "queries, keys, values and masks are of several types");
      return std::nullopt;
    }
    ShareHeads(core);
    return core;
  }

 private:
  // Through what turns rows without any key, which softmax makes NaN, into zeros.
  const ir::Node* SoftmaxOf(int weights, AttentionCore& core) const {
    weights = WithoutCasts(weights);
    if (const ir::Node* const guard = match_.Maker(weights, "Where")) {
      const ir::Node* const is_nan = match_.Maker(guard->inputs[0], "IsNaN");
      const bool guards = is_nan != nullptr && is_nan->inputs[0] == guard->inputs[2];
      const std::optional<double> zero = match_.Scalar(guard->inputs[1]);
      if (!guards || zero != 0.0) return nullptr;
      weights = guard->inputs[2];
      core.guarded = true;
    }
    const ir::Node* const softmax = match_.Maker(weights);
    const auto& dims = graph_.value(weights).dims;
    if (softmax == nullptr || !dims) return nullptr;
    if (!softmax->Is("Softmax") && !softmax->Is(kBiasSoftmax, ops::kMicrosoftDomain)) return nullptr;
    const int64_t axis = IntAttribute(*softmax, "axis", softmax->since_version < 13 ? 1 : -1);
    return axis == -1 || axis == static_cast<int64_t>(dims->size()) - 1 ? softmax : nullptr;
  }

  // By IsNaN and Where.
  bool IsReadByGuardAlone(int value) const {
    return match_.uses().readers(value).size() == 2 && graph_.value(value).output < 0;
  }

  bool HasFourDims(int value) const {
    const auto& dims = graph_.value(value).dims;
    return dims && dims->size() == 4;
  }

  // Softmax in float between casts of 16-bit models: the operator computes it so anyway.
  int WithoutCasts(int value) const {
    const ir::Node* const cast = match_.Maker(value, "Cast");
    if (cast == nullptr) return value;
    const DataTypeSet floats = kFloatTypesNoDouble;
    return floats.Contains(graph_.value(value).type) && floats.Contains(graph_.value(cast->inputs[0]).type)
               ? cast->inputs[0]
               : value;
  }

  // Through the Add of another mask for each window of an image: the scores of all windows have one dimension more for
  // it.
  int WithoutWindows(int scores, AttentionCore& core) const {
    const ir::Node* const flat = match_.Maker(scores, "Reshape");
    const ir::Node* const add = flat == nullptr ? nullptr : match_.Maker(flat->inputs[0], "Add");
    if (add == nullptr || !match_.IsPrivate(scores) || !match_.IsPrivate(flat->inputs[0])) return scores;
    for (size_t i = 0; i < 2; ++i) {
      const ir::Node* const apart = match_.Maker(add->inputs[i], "Reshape");
      const int mask = add->inputs[1 - i];
      if (apart == nullptr || !match_.IsPrivate(add->inputs[i]) || !IsByWindow(add->inputs[i], scores)) continue;
      const auto& dims = graph_.value(mask).dims;
      const bool fits = dims && dims->size() == 5 && dims->front().size == 1 && (*dims)[1].size > 1 &&
                        Broadcasts(mask, add->inputs[i]) && graph_.SameDims(apart->inputs[0], scores) &&
                        std::ranges::all_of(*dims, &ir::Dim::known);
      if (!fits) continue;
      core.window_mask = mask;
      return apart->inputs[0];
    }
    return scores;
  }

  // Whether the value is [batch, windows, heads, queries, keys] of scores of [batch * windows, heads, queries, keys].
  bool IsByWindow(int value, int scores) const {
    const auto &apart = graph_.value(value).dims, &flat = graph_.value(scores).dims;
    if (!apart || !flat || apart->size() != 5 || flat->size() != 4) return false;
    for (size_t i = 1; i < 4; ++i) {
      if (!(*apart)[i + 1].Equals((*flat)[i])) return false;
    }
    return Times(ir::ElementOf((*apart)[0]), ir::ElementOf((*apart)[1])) == ir::ElementOf((*flat)[0]);
  }

  bool IsOfOneEntry(int mask) const {
    const auto& dims = graph_.value(mask).dims;
    return dims && (dims->size() < 4 || dims->front().size == 1);
  }

  // scale * Q K^T, the scale on either side of the product.
  bool MatchScores(int scores, AttentionCore& core) const {
    const ProductOf scaled = match_.Factors(scores);
    if (scaled.values.size() != 1 || !graph_.SameDims(scaled.values[0], scores)) return false;
    const ir::Node* const product = match_.Maker(scaled.values[0]);
    if (product == nullptr || !IsProduct(*product)) return false;
    const ProductOf q = Scaled(product->inputs[0]), keys = Scaled(product->inputs[1]);
    core.scale = scaled.constant * q.constant * keys.constant * FloatAttribute(*product, "alpha", 1);
    core.q = q.values[0];
    core.keys = keys.values[0];
    core.keys_are_rows = IntAttribute(*product, "transB", 0) != 0;
    scores_ = scaled.values[0];
    return true;
  }

  // MatMul, or what the host's optimisers make of it, with the scale and the transposed keys in it.
  static bool IsProduct(const ir::Node& node) {
    if (node.Is("MatMul")) return true;
    const bool is_fused = node.Is("FusedMatMul", ops::kMicrosoftDomain);
    return is_fused && std::ranges::none_of(std::array{"transA", "transBatchA", "transBatchB"},
                                            [&](const char* name) { return IntAttribute(node, name, 0) != 0; });
  }

  // Whether a product is what is left of the scores without what is done to them element by element.
  bool IsOfProduct(int scores) const {
    constexpr int kMostSteps = 6;
    for (int i = 0; i < kMostSteps; ++i) {
      const ir::Node* const maker = match_.Maker(scores);
      if (maker == nullptr) return false;
      if (IsProduct(*maker)) return true;
      constexpr std::string_view kSteps[] = {"Add", "Cast", "Div", "Mul", "Sub", "Tanh", "Where"};
      if (!maker->domain.empty() || std::ranges::find(kSteps, maker->op_type) == std::end(kSteps)) return false;
      const auto operands = std::span(maker->inputs).subspan(maker->Is("Where") ? 1 : 0);
      const auto made =
          std::ranges::find_if(operands, [&](int input) { return input >= 0 && match_.Maker(input) != nullptr; });
      if (made == operands.end()) return false;
      scores = *made;
    }
    return false;
  }

  // constant * value, or the value as it is.
  ProductOf Scaled(int value) const {
    ProductOf product = match_.Factors(value);
    // A constant may have more dimensions than what it scales.
    const bool scales = product.values.size() == 1 && graph_.SameDims(product.values[0], value);
    return scales ? product : ProductOf{.values = {value}};
  }

  bool MatchMasked(int scores, AttentionCore& core) const {
    const ir::Node* const add = match_.Maker(scores, "Add");
    if (add == nullptr || !match_.IsPrivate(scores)) return false;
    return MatchMasked(add->inputs[0], add->inputs[1], core) || MatchMasked(add->inputs[1], add->inputs[0], core);
  }
  bool MatchMasked(int scores, int mask, AttentionCore& core) const {
    if (!MatchScores(WithoutCasts(scores), core)) return false;
    core.mask = mask;
    core.mask_fits = Broadcasts(mask, scores_);
    return true;
  }

  // Rows of the bias are each for as many neighbouring rows of scores, or all of them in turn: as sums broadcast, where
  // dimensions of 1 come last but for the rows' own, or first.
  bool MatchBiased(const ir::Node& softmax, AttentionCore& core) const {
    if (!MatchMasked(softmax.inputs[0], softmax.inputs[1], core) || !core.mask_fits) return false;
    const Dims4 &bias = *graph_.value(core.mask).dims, &scores = *graph_.value(scores_).dims;
    const auto is_whole = [&](size_t i) { return bias[i].Equals(scores[scores.size() - bias.size() + i]); };
    const auto is_one = [&](size_t i) { return bias[i].size == 1; };
    const bool is_inner = IntAttribute(softmax, "is_inner_broadcast", 0) != 0;
    const size_t rows = bias.size() - 1;
    size_t i = 0;
    while (i < rows && (is_inner ? is_whole(i) : is_one(i))) ++i;
    while (i < rows && (is_inner ? is_one(i) : is_whole(i))) ++i;
    return i == rows && is_whole(rows) && (!is_inner || bias.size() == scores.size());
  }

  bool Broadcasts(int value, int to) const {
    const auto &dims = graph_.value(value).dims, &whole = graph_.value(to).dims;
    if (!dims || dims->empty() || !whole || dims->size() > whole->size()) return false;  // the operator takes no scalar
    const size_t ahead = whole->size() - dims->size();
    for (size_t i = 0; i < dims->size(); ++i) {
      if ((*dims)[i].size != 1 && !(*dims)[i].Equals((*whole)[ahead + i])) return false;
    }
    return true;
  }

  bool MatchKeys(AttentionCore& core) const {
    if (core.keys_are_rows) {
      core.k = core.keys;
      return true;
    }
    if (const ir::Node* const turn = match_.Maker(core.keys, "Transpose")) {
      auto order = match_.IntsOf(*turn, "perm", turn->inputs.size());
      if (!order || order->size() != 4) return false;
      std::swap((*order)[2], (*order)[3]);
      const bool is_in_order = std::ranges::is_sorted(*order);
      (is_in_order ? core.k : core.k_elsewhere) = turn->inputs[0];
      core.k_order = *std::move(order);
      return true;
    }
    return MatchFlatKeys(core);
  }

  // All heads of the batch in one dimension while the last two are swapped.
  bool MatchFlatKeys(AttentionCore& core) const {
    const ir::Node* const apart = match_.Maker(core.keys, "Reshape");
    const ir::Node* const turn = apart == nullptr ? nullptr : match_.Maker(apart->inputs[0], "Transpose");
    const ir::Node* const joined = turn == nullptr ? nullptr : match_.Maker(turn->inputs[0], "Reshape");
    if (joined == nullptr || match_.IntsOf(*turn, "perm", 1) != std::vector<int64_t>{0, 2, 1}) return false;
    const auto &k = graph_.value(joined->inputs[0]).dims, &flat = graph_.value(turn->inputs[0]).dims;
    const auto& keys = graph_.value(core.keys).dims;
    if (!k || !flat || !keys || k->size() != 4 || flat->size() != 3 || keys->size() != 4) return false;
    const bool same = (*flat)[1].Equals((*k)[2]) && (*flat)[2].Equals((*k)[3]) && (*keys)[0].Equals((*k)[0]) &&
                      (*keys)[1].Equals((*k)[1]) && (*keys)[2].Equals((*k)[3]) && (*keys)[3].Equals((*k)[2]);
    if (same) core.k = joined->inputs[0];
    return same;
  }

  bool MatchSizes(AttentionCore& core) const {
    const auto &q = graph_.value(core.q).dims, &keys = graph_.value(core.keys).dims, &v = graph_.value(core.v).dims;
    if (!q || !keys || !v || q->size() != 4 || keys->size() != 4 || v->size() != 4) return false;
    for (size_t i = 0; i < 2; ++i) {
      if (!(*q)[i].Equals((*keys)[i]) || !(*q)[i].Equals((*v)[i])) return false;
    }
    core.heads = core.kv_heads = (*q)[1].size, core.head_size = (*q)[3].size, core.v_head_size = (*v)[3].size;
    // The product with V has no other rows of V than the scores' keys.
    const bool alike = (*keys)[core.keys_are_rows ? 2 : 3].Equals((*v)[2]) || core.mask < 0 || core.mask_fits;
    return core.heads > 0 && core.head_size > 0 && core.v_head_size > 0 && alike &&
           (*keys)[core.keys_are_rows ? 3 : 2].Equals((*q)[3]);
  }

  bool MatchTypes(const AttentionCore& core) const {
    const DataType type = graph_.value(core.q).type;
    return std::ranges::all_of(std::array{core.keys, core.v, core.mask, core.window_mask},
                               [&](int value) { return value < 0 || graph_.value(value).type == type; });
  }

  // Each head of keys and values once, where both are repeated alike for those of queries.
  void ShareHeads(AttentionCore& core) const {
    const int k = core.k < 0 ? -1 : Unrepeated(core.k), v = Unrepeated(core.v);
    if (k < 0 || v < 0) return;
    const ir::Dim &k_heads = graph_.value(k).dims->at(1), &v_heads = graph_.value(v).dims->at(1);
    if (k_heads.size != v_heads.size) return;
    core.k = k, core.v = v, core.kv_heads = k_heads.size;
  }

  // y of [batch, heads, rows, size] where the value is each head of y several times, one after the other; -1: of none.
  int Unrepeated(int value) const {
    const ir::Node* const flat = match_.Maker(value, "Reshape");
    const ir::Node* const wide = flat == nullptr ? nullptr : match_.Maker(flat->inputs[0], "Expand");
    const ir::Node* const apart = wide == nullptr ? nullptr : match_.Maker(wide->inputs[0]);
    if (apart == nullptr || !(apart->Is("Unsqueeze") || apart->Is("Reshape"))) return -1;
    const auto &one = graph_.value(apart->inputs[0]).dims, &single = graph_.value(wide->inputs[0]).dims,
               &many = graph_.value(flat->inputs[0]).dims, &all = graph_.value(value).dims;
    if (!one || !single || !many || !all || one->size() != 4 || single->size() != 5 || many->size() != 5) return -1;
    if (!(*one)[1].known() || !(*many)[2].known() || (*single)[2].size != 1) return -1;
    for (const size_t i : {0, 1, 3, 4}) {
      const size_t at = i < 2 ? i : i - 1;
      if (!(*one)[at].Equals((*single)[i]) || !(*one)[at].Equals((*many)[i])) return -1;
      if (i != 1 && !(*one)[at].Equals((*all)[at])) return -1;
    }
    return (*all)[1].size == (*one)[1].size * (*many)[2].size ? apart->inputs[0] : -1;
  }

  const Rewriter& rewrite_;
  const ir::Graph& graph_;
  const Matcher& match_;
  mutable int scores_ = -1;  // of Q K^T
};

}  // namespace

std::optional<AttentionCore> MatchAttention(const Rewriter& rewrite, int index) {
  return AttentionMatch(rewrite).Match(index);
}

bool MaskBroadcasts(const ir::Graph& graph, const ir::Node& attention) {
  if (attention.since_version < 24 || attention.inputs.size() < 4 || attention.inputs[3] < 0) return true;
  const auto &mask = graph.value(attention.inputs[3]).dims, &keys = graph.value(attention.inputs[1]).dims;
  return mask && keys && !mask->empty() && keys->size() >= 2 && mask->back().Equals((*keys)[keys->size() - 2]);
}

}  // namespace cudaep::graph
