// Attention, and networks with a state.
#include "graph/ir/attributes.h"
#include "graph/ir/dim_rules.h"

namespace cudaep::graph::ir {
namespace {

// Those of `heads` heads of so many as `all` has of `of` heads; nothing where that is not known.
Dim OfHeads(const Dim& all, int64_t of, int64_t heads) {
  return Symbols::DimOf(Times(Quotient(ElementOf(all), Number(of)), Number(heads)));
}

}  // namespace

// Q, K, V, mask, past key, past value -> Y, present key, present value, scores. All of [batch, rows, heads * size] or
// [batch, heads, rows, size]; present ones of the latter.
MaybeDims DimRules::Attended(const Node& node, size_t output) {
  const MaybeDims &q = Stated(node, 0), &k = Stated(node, 1), &v = Stated(node, 2), &past = Stated(node, 4);
  if (!q || !k || !v || q->size() != k->size() || q->size() != v->size()) return std::nullopt;
  const bool heads_first = q->size() == 4, has_past = node.inputs.size() > 4 && node.inputs[4] >= 0;
  if (!heads_first && q->size() != 3) return std::nullopt;
  const int64_t q_heads = IntAttribute(node, "q_num_heads", 0), kv_heads = IntAttribute(node, "kv_num_heads", 0);
  if (!heads_first && (q_heads <= 0 || kv_heads <= 0)) return std::nullopt;
  const Dim &batch = (*q)[0], &queries = (*q)[heads_first ? 2 : 1], &rows = (*k)[heads_first ? 2 : 1];
  const Dim size = heads_first ? k->back() : OfHeads(k->back(), kv_heads, 1);
  const Dim v_size = heads_first ? v->back() : OfHeads(v->back(), kv_heads, 1);
  const Dim heads = heads_first ? (*q)[1] : Dim{.size = q_heads},
            groups = heads_first ? (*k)[1] : Dim{.size = kv_heads};
  if (output == 0) {
    return heads_first ? DimList{batch, heads, queries, v_size}
                       : DimList{batch, queries, OfHeads(v->back(), kv_heads, q_heads)};
  }
  const Dim keys = !has_past ? rows : past && past->size() == 4 ? AddDims((*past)[2], rows) : Dim{};
  if (output == 3) return DimList{batch, heads, queries, keys};
  return DimList{batch, groups, keys, output == 1 ? size : v_size};
}

// Query, key, value, bias, key padding, bias of scores, past key, past value, past length -> Y, present key, present
// value, scores. Key and
// value: absent or of [batch, rows, hidden], [batch, heads, rows, size] or together [batch, rows, heads, 2, size].
MaybeDims DimRules::AttendedByHeads(const Node& node, size_t output) {
  constexpr size_t kPastKey = 6, kPastLength = 8;
  const auto has = [&](size_t input) { return input < node.inputs.size() && node.inputs[input] >= 0; };
  const MaybeDims &q = Stated(node, 0), &k = Stated(node, 1), &v = Stated(node, 2), &past = Stated(node, kPastKey);
  const int64_t heads = IntAttribute(node, "num_heads", 0);
  if (heads <= 0 || output > 3) return std::nullopt;
  if (!q || (q->size() != 3 && q->size() != 5) || (has(1) && !k) || (has(2) && !v)) return std::nullopt;
  const size_t k_rank = k ? k->size() : 0, v_rank = v ? v->size() : 0;
  const auto of_heads = [&](const Dim& size) { return OfHeads(size, 1, heads); };
  // Of all heads.
  const Dim hidden = q->size() == 3 ? q->back() : of_heads(q->back());
  const Dim v_hidden = v_rank == 3 ? v->back() : v_rank == 4 ? of_heads(v->back()) : hidden;
  if (output == 0) return DimList{(*q)[0], (*q)[1], v_hidden};
  const Dim rows = k_rank == 4 ? (*k)[2] : k_rank == 3 || k_rank == 5 ? (*k)[1] : (*q)[1];
  const bool has_past = has(kPastKey), shares = has(kPastLength), known = past && past->size() == 4;
  if (output == 3) return DimList{(*q)[0], {.size = heads}, (*q)[1], has_past || shares ? Dim{} : rows};
  // With a length beside them past ones are a buffer that present ones are written into.
  const Dim keys = !has_past ? rows : !known ? Dim{} : shares ? (*past)[2] : AddDims((*past)[2], rows);
  return DimList{(*q)[0], {.size = heads}, keys, OfHeads(output == 1 ? hidden : v_hidden, heads, 1)};
}

// Input of [batch, rows, size] and weights of [size, hidden of queries, keys and values] -> Y.
MaybeDims DimRules::AttendedPacked(const Node& node, size_t output) const {
  const MaybeDims &x = Stated(node, 0), &weights = Stated(node, 1);
  if (output != 0 || !x || x->size() != 3 || !weights || weights->size() != 2) return std::nullopt;
  const auto* const sizes = FindAttribute<std::vector<int64_t>>(node, "qkv_hidden_sizes");
  const bool stated = sizes != nullptr && sizes->size() == 3;
  return DimList{(*x)[0], (*x)[1], stated ? Symbols::DimOf(Number((*sizes)[2])) : OfHeads((*weights)[1], 3, 1)};
}

// X is [steps, batch, size], or [batch, steps, size] with layout=1; W is [directions, ...].
MaybeDims DimRules::Recurrent(const Node& node, size_t output) const {
  const MaybeDims &x = Stated(node, 0), &w = Stated(node, 1);
  if (!x || !w || x->size() != 3 || w->size() != 3) return std::nullopt;
  const bool batch_first = IntAttribute(node, "layout", 0) != 0;
  const Dim &steps = (*x)[batch_first ? 1 : 0], &batch = (*x)[batch_first ? 0 : 1], &directions = (*w)[0];
  const MaybeDims& recurrence = Stated(node, 2);
  Dim hidden = SizeAttribute(node, "hidden_size");
  if (!hidden.known() && recurrence && recurrence->size() == 3) hidden = recurrence->back();
  if (output == 0) {
    return batch_first ? DimList{batch, steps, directions, hidden} : DimList{steps, directions, batch, hidden};
  }
  return batch_first ? DimList{batch, directions, hidden} : DimList{directions, batch, hidden};
}

}  // namespace cudaep::graph::ir
