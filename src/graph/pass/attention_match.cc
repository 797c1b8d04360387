#include "graph/pass/attention_match.h"

#include <algorithm>

#include "graph/ir/elements.h"

namespace cudaep::graph {
namespace {

// What every device's shared memory holds.
constexpr int64_t kMostHeadSize = 256;

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
    const int scores = WithoutWindows(WithoutCasts(softmax->inputs[0]), core);
    if (!MatchScores(scores, core) && !MatchMasked(scores, core)) return std::nullopt;
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
    const ir::Node* const softmax = match_.Maker(weights, "Softmax");
    const auto& dims = graph_.value(weights).dims;
    if (softmax == nullptr || !dims) return nullptr;
    const int64_t axis = IntAttribute(*softmax, "axis", softmax->since_version < 13 ? 1 : -1);
    return axis == -1 || axis == static_cast<int64_t>(dims->size()) - 1 ? softmax : nullptr;
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
    const ir::Node* const product = match_.Maker(scaled.values[0], "MatMul");
    if (product == nullptr) return false;
    const ProductOf q = Scaled(product->inputs[0]), keys = Scaled(product->inputs[1]);
    core.scale = scaled.constant * q.constant * keys.constant;
    core.q = q.values[0];
    core.keys = keys.values[0];
    scores_ = scaled.values[0];
    return true;
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
    for (size_t i = 0; i < 2; ++i) {
      if (!MatchScores(WithoutCasts(add->inputs[i]), core)) continue;
      core.mask = add->inputs[1 - i];
      core.mask_fits = Broadcasts(core.mask, scores_);
      return true;
    }
    return false;
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
    const auto fits = [](int64_t size) { return size > 0 && size <= kMostHeadSize; };
    const DataType type = graph_.value(core.q).type;
    // The product with V has no other rows of V than the scores' keys.
    const bool alike = (*keys)[3].Equals((*v)[2]) || core.mask < 0 || core.mask_fits;
    return core.heads > 0 && fits(core.head_size) && fits(core.v_head_size) && (*keys)[2].Equals((*q)[3]) && alike &&
           graph_.value(core.keys).type == type && graph_.value(core.v).type == type &&
           (core.mask < 0 || graph_.value(core.mask).type == type) &&
           (core.window_mask < 0 || graph_.value(core.window_mask).type == type);
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
