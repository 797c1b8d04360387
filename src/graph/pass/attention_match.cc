#include "graph/pass/attention_match.h"

#include <algorithm>
#include <array>

#include "core/strings.h"
#include "graph/ir/elements.h"
#include "graph/pass/heads_match.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

// What every device's shared memory holds.
constexpr int64_t kMostHeadSize = 256;
// The host's optimisers' sum and softmax, which broadcasts as the sum does.
constexpr const char* kBiasSoftmax = "BiasSoftmax";

class AttentionMatch {
 public:
  explicit AttentionMatch(const Rewriter& rewrite)
      : rewrite_(rewrite),
        graph_(rewrite.graph),
        match_(rewrite.match),
        heads_(graph_, match_),
        scores_(graph_, match_) {}

  std::optional<AttentionCore> Match(int index) const {
    const ir::Node& node = rewrite_.node(index);
    if (node.on_host || !node.Is("MatMul")) return std::nullopt;
    AttentionCore core{.result = index};
    const ir::Node* const softmax = SoftmaxOf(node.inputs[0], core);
    if (softmax == nullptr) return std::nullopt;
    const bool is_biased = softmax->op_type == kBiasSoftmax;
    const int bare = is_biased ? softmax->inputs[0] : scores_.Bare(softmax->inputs[0]);
    const int top = is_biased ? bare : WithoutWindows(bare, core);
    const auto scores = is_biased ? scores_.MatchProduct(top) : scores_.Match(top);
    if (!scores) {
      if (!HasHeads(softmax->outputs[0]) || !scores_.IsOfProduct(top)) return std::nullopt;
      rewrite_.Miss(index, "the scores are no product with a constant scale and what is done to them one by one");
      return std::nullopt;
    }
    const bool softmax_is_private =
        core.guarded ? IsReadByGuardAlone(softmax->outputs[0]) : match_.IsPrivate(softmax->outputs[0]);
    if (!match_.IsPrivate(node.inputs[0]) || !softmax_is_private) {
      rewrite_.Miss(index, "others read the weights");
      return std::nullopt;
    }
    core.scale = scores->scale, core.softcap = scores->softcap;
    if (!MatchOperands(node, *scores, core)) {
      rewrite_.Miss(index, "queries, keys and values are not stated to fit");
      return std::nullopt;
    }
    if (core.window_mask >= 0 && (core.one_head || !HasHeadsOf(bare, core))) {
      rewrite_.Miss(index, "the scores of windows are not stated to have the queries' heads");
      return std::nullopt;
    }
    if (is_biased ? !TakeBias(*softmax, core) : !TakeTerms(*scores, core)) {
      rewrite_.Miss(index, is_biased ? "the bias of the softmax is not repeated as sums broadcast"
                                     : "what is done to the scores is not stated to broadcast to them");
      return std::nullopt;
    }
    // Such a mask might be of more keys: the product with V tells that it is not, where V has as many as K.
    if (!core.mask_fits && !core.rows_fit) {
      rewrite_.Miss(index, "queries, keys and values are not stated to fit");
      return std::nullopt;
    }
    if (core.window_mask >= 0 && core.mask >= 0 && !(core.mask_fits && IsOfOneEntry(core.mask))) {
      rewrite_.Miss(index, "the mask beside that of windows is not stated to be of one batch entry");
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
    if (!core.one_head) ShareHeads(core);
    return core;
  }

 private:
  // Through what turns rows without any key, which softmax makes NaN, into zeros.
  const ir::Node* SoftmaxOf(int weights, AttentionCore& core) const {
    weights = scores_.Bare(weights);
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
    return IsLastAxis(axis, dims->size()) ? softmax : nullptr;
  }

  // By IsNaN and Where.
  bool IsReadByGuardAlone(int value) const {
    return match_.uses().readers(value).size() == 2 && graph_.value(value).output < 0;
  }

  bool HasHeads(int value) const {
    const auto& dims = graph_.value(value).dims;
    return dims && dims->size() >= 3;
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
                        Broadcasts(mask, *graph_.value(add->inputs[i]).dims) &&
                        graph_.SameDims(apart->inputs[0], scores) && std::ranges::all_of(*dims, &ir::Dim::known);
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

  // The bias of BiasSoftmax: its rows are each for as many neighbouring rows of scores, or all of them in turn. As sums
  // broadcast, where dimensions of 1 come last but for the rows' own, or first.
  bool TakeBias(const ir::Node& softmax, AttentionCore& core) const {
    core.mask = softmax.inputs[1];
    const auto& dims = graph_.value(core.mask).dims;
    const std::vector<ir::Dim> scores = ScoreDims(graph_, core);
    if (core.one_head || !Broadcasts(core.mask, scores)) return false;
    const std::vector<ir::Dim>& bias = *dims;
    const auto is_whole = [&](size_t i) { return bias[i].Equals(scores[scores.size() - bias.size() + i]); };
    const auto is_one = [&](size_t i) { return bias[i].size == 1; };
    const bool is_inner = IntAttribute(softmax, "is_inner_broadcast", 0) != 0;
    const size_t rows = bias.size() - 1;
    size_t i = 0;
    while (i < rows && (is_inner ? is_whole(i) : is_one(i))) ++i;
    while (i < rows && (is_inner ? is_one(i) : is_whole(i))) ++i;
    return i == rows && is_whole(rows) && (!is_inner || bias.size() == scores.size());
  }

  // What is done to the scores as a mask, or as what one is made of.
  bool TakeTerms(const AttentionScores& scores, AttentionCore& core) const {
    using Kind = ScoreTerm::Kind;
    std::vector<ScoreTerm> terms = scores.terms;
    // Scores themselves are not raised, of which all may be infinite.
    if (!terms.empty() && terms.front().kind == Kind::kRaised) return false;
    if (!std::ranges::all_of(terms, [&](ScoreTerm& term) { return TakeTerm(term, scores, core); })) return false;
    const std::vector<ir::Dim> whole = ScoreDims(graph_, core);
    const bool fit = std::ranges::all_of(terms, [&](const ScoreTerm& term) {
      return term.kind == Kind::kRaised || (term.flat && core.split >= 0) || Broadcasts(term.value, whole);
    });
    if (terms.size() == 1 && terms[0].kind == Kind::kAdded && core.split < 0) {
      core.mask = terms[0].value;
    } else {
      core.terms = std::move(terms);
      if (!core.terms.empty() && core.window_mask >= 0) return false;
    }
    core.mask_fits = fit;
    return fit || !core.one_head;
  }

  // Makes it one of scores with their heads apart, or says how it becomes that; false: nothing is known that is.
  bool TakeTerm(ScoreTerm& term, const AttentionScores& scores, AttentionCore& core) const {
    if (term.kind == ScoreTerm::Kind::kRaised) return true;
    const auto& dims = graph_.value(term.value).dims;
    if (!dims || dims->empty() || dims->size() > 4) return false;
    if (core.one_head) return term.flat;
    if (!term.flat) return HasHeadsOf(term.scores, core);
    term.flat = dims->size() == 3 && dims->front().size != 1;
    if (!term.flat) return true;
    if (const int apart = heads_.ApartSource(term.value); apart >= 0 && HasHeadsOf(apart, core)) {
      term.value = apart, term.flat = false;
      return true;
    }
    core.split = scores.split;
    return core.split >= 0 && graph_.SameDims(term.value, scores.product) &&
           HasHeadsOf(rewrite_.node(core.split).outputs[0], core);
  }

  // Whether it is [batch, heads, ..] as the queries are, not any other dimensions that give as many.
  bool HasHeadsOf(int value, const AttentionCore& core) const {
    const auto &dims = graph_.value(value).dims, &q = graph_.value(core.q).dims;
    return dims && dims->size() == 4 && q->size() == 4 && (*dims)[0].Equals((*q)[0]) && (*dims)[1].Equals((*q)[1]);
  }

  bool Broadcasts(int value, const std::vector<ir::Dim>& whole) const {
    const auto& dims = graph_.value(value).dims;
    if (!dims || dims->empty() || dims->size() > whole.size()) return false;  // the operator takes no scalar
    const size_t ahead = whole.size() - dims->size();
    for (size_t i = 0; i < dims->size(); ++i) {
      if ((*dims)[i].size != 1 && !(*dims)[i].Equals(whole[ahead + i])) return false;
    }
    return true;
  }

  bool MatchOperands(const ir::Node& product, const AttentionScores& scores, AttentionCore& core) const {
    core.q = scores.q, core.keys = scores.keys, core.keys_are_rows = scores.keys_are_rows, core.v = product.inputs[1];
    const auto& dims = graph_.value(core.q).dims;
    if (!dims || (dims->size() != 3 && dims->size() != 4)) return false;
    core.one_head = dims->size() == 3 && !MatchApart(core);
    return MatchSizes(core) && (core.one_head ? MatchJoinedKeys(core) : MatchKeys(core));
  }

  // Products of [batch * heads, rows, size] of which each is a view of [batch, heads, rows, size].
  bool MatchApart(AttentionCore& core) const {
    const int product = rewrite_.node(core.result).outputs[0], split = match_.OnlyReader(product);
    const bool splits = split >= 0 && rewrite_.node(split).Is("Reshape") &&
                        HoldsHeadsApart(graph_, rewrite_.node(split).outputs[0], product);
    const int rows = core.keys_are_rows ? core.keys : UnturnedKeys(core.keys);
    const int q = heads_.ApartSource(core.q), v = heads_.ApartSource(core.v);
    const int keys = heads_.ApartSource(rows >= 0 ? rows : core.keys);
    if (!splits || q < 0 || keys < 0 || v < 0) return false;
    AttentionCore apart = core;
    apart.result = split;
    apart.q = q, apart.keys = keys, apart.v = v, apart.keys_are_rows = rows >= 0;
    if (!HasHeadsOf(rewrite_.node(split).outputs[0], apart)) return false;
    core = std::move(apart);
    return true;
  }

  // [batches, rows, size] of which [batches, size, rows] is the transpose; -1: of none.
  int UnturnedKeys(int keys) const {
    const ir::Node* const turn = match_.Maker(keys, "Transpose");
    return turn != nullptr && match_.IntsOf(*turn, "perm", 1) == std::vector<int64_t>{0, 2, 1} ? turn->inputs[0] : -1;
  }

  bool MatchJoinedKeys(AttentionCore& core) const {
    core.k = core.keys_are_rows ? core.keys : UnturnedKeys(core.keys);
    if (core.k < 0) core.k_elsewhere = core.keys, core.k_order = {0, 2, 1};
    return true;
  }

  // Keys that nobody transposes for the product are transposed for attention.
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
    if (!MatchFlatKeys(core)) core.k_elsewhere = core.keys, core.k_order = {0, 1, 3, 2};
    return true;
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
    const size_t rank = core.one_head ? 3 : 4;
    if (!q || !keys || !v || q->size() != rank || keys->size() != rank || v->size() != rank) return false;
    for (size_t i = 0; i < rank - 2; ++i) {
      if (!(*q)[i].Equals((*keys)[i]) || !(*q)[i].Equals((*v)[i])) return false;
    }
    core.heads = core.kv_heads = core.one_head ? 1 : (*q)[1].size;
    core.head_size = q->back().size, core.v_head_size = v->back().size;
    const size_t key_rows = rank - (core.keys_are_rows ? 2 : 1), key_size = rank - (core.keys_are_rows ? 1 : 2);
    core.rows_fit = (*keys)[key_rows].Equals((*v)[rank - 2]);
    return core.heads > 0 && core.head_size > 0 && core.v_head_size > 0 && (*keys)[key_size].Equals(q->back());
  }

  bool MatchTypes(const AttentionCore& core) const {
    const DataType type = graph_.value(core.q).type;
    const auto fits = [&](int value) { return value < 0 || graph_.value(value).type == type; };
    return std::ranges::all_of(std::array{core.keys, core.v, core.mask, core.window_mask}, fits) &&
           std::ranges::all_of(core.terms, [&](const ScoreTerm& term) {
             return fits(term.kind == ScoreTerm::Kind::kAdded ? term.value : term.lowest);
           });
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
  const HeadsMatch heads_;
  const ScoresMatch scores_;
};

}  // namespace

std::optional<AttentionCore> MatchAttention(const Rewriter& rewrite, int index) {
  return AttentionMatch(rewrite).Match(index);
}

std::vector<ir::Dim> ScoreDims(const ir::Graph& graph, const AttentionCore& core) {
  const auto &q = *graph.value(core.q).dims, &keys = *graph.value(core.keys).dims;
  std::vector<ir::Dim> dims(q.begin(), q.end() - 1);
  dims.push_back(keys[keys.size() - (core.keys_are_rows ? 2 : 1)]);
  return dims;
}

bool MaskBroadcasts(const ir::Graph& graph, const ir::Node& attention) {
  if (attention.since_version < 24 || attention.inputs.size() < 4 || attention.inputs[3] < 0) return true;
  const auto &mask = graph.value(attention.inputs[3]).dims, &keys = graph.value(attention.inputs[1]).dims;
  return mask && keys && !mask->empty() && keys->size() >= 2 && mask->back().Equals((*keys)[keys->size() - 2]);
}

}  // namespace cudaep::graph
