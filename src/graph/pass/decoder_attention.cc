#include "graph/pass/decoder_attention.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "graph/pass/attention_match.h"
#include "graph/pass/heads_match.h"
#include "graph/pass/part_match.h"
#include "graph/pass/rewrite.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

// Where queries, keys or values come from; -1: there is no such thing.
struct Source {
  int rows = -1;                // [batch, rows, heads, size]
  std::optional<RowPart> part;  // of each head of `rows`
  int apart = -1;               // that part, where it lies as `rows` do
  int cos = -1, sin = -1;
  bool interleaved = false;  // rotates neighbours
  int norm = -1;             // the scale of an RMSNormalization of each head
  int normalised = -1;       // its result, where that lies as `rows` do
  float epsilon = 0;
  bool norm_last = false;  // of rows as they are rotated, not before
  int past = -1;           // heads first
  int present = -1;        // heads first, where others read it too
};

class Fuser {
 public:
  Fuser(const Rewriter& rewrite, NodeRemoval& gone)
      : rewrite_(rewrite), graph_(rewrite.graph), match_(rewrite.match), heads_(graph_, match_), gone_(gone) {}

  void Fuse(int index) const {
    const ir::Node& attention = rewrite_.node(index);
    if (!IsPlain(attention)) return;
    const auto &q_dims = *graph_.value(attention.inputs[0]).dims, &v_dims = *graph_.value(attention.inputs[2]).dims;
    const int merge = heads_.MergeOf(attention.outputs[0], q_dims[0], q_dims[2], q_dims[1].size * v_dims[3].size);
    const int last = merge >= 0 ? merge : TurnOf(attention);
    Source q = SourceOf(attention.inputs[0]), k = Appended(attention.inputs[1]), v = Appended(attention.inputs[2]);
    if (!match_.IsPrivate(attention.inputs[0]) || last < 0 || q.rows < 0 || k.rows < 0 || v.rows < 0) return;
    const char* why = WithoutOthers(q, k, v);
    if (why == nullptr) why = WhyNot(index, q, k, v);
    if (why != nullptr) return rewrite_.Miss(index, why);
    const int result = attention.outputs[0], queries = attention.inputs[0];
    if (!graph_.SameDims(queries, result) && IsAskedFor(result, last)) {
      return rewrite_.Miss(index, "others ask for the dimensions of the result");
    }
    ir::Node fused = Fused(index, q, k, v);
    if (merge < 0) fused.attributes["heads_apart"] = int64_t{1};
    fused.outputs = {rewrite_.node(last).outputs[0], k.present, v.present};
    if (!rewrite_.Replace(index, std::move(fused))) return;
    gone_.Mark(last);
    // Who asks for the dimensions of the result, which nothing makes now: they are the queries'.
    for (const auto& [reader, input] : match_.uses().readers(result)) {
      rewrite_.node(reader).inputs[static_cast<size_t>(input)] = queries;
    }
    for (const int present : {k.present, v.present}) {
      if (present >= 0) gone_.Mark(match_.MakerIndex(present));
    }
  }

 private:
  // ONNX Attention of [batch, heads, rows, size] with nothing but a scale, a softcap and a mask of floats.
  bool IsPlain(const ir::Node& node) const {
    if (node.on_host || !node.Is("Attention") || node.outputs.size() != 1 || node.inputs.size() > 4) return false;
    for (const auto& [name, value] : node.attributes) {
      if (name != "scale" && name != "softcap" && name != "empty_is_nan") return false;
    }
    for (size_t i = 0; i < 3; ++i) {
      const auto& dims = graph_.value(node.inputs[i]).dims;
      if (!dims || dims->size() != 4 || !(*dims)[1].known() || !(*dims)[3].known()) return false;
    }
    const DataType type = graph_.value(node.inputs[0]).type;
    const bool has_mask = node.inputs.size() > 3 && node.inputs[3] >= 0;
    return kFloatTypesNoDouble.Contains(type) && (!has_mask || graph_.value(node.inputs[3]).type == type) &&
           MaskBroadcasts(graph_, node);
  }

  // The Transpose that turns the heads of the result back, whatever becomes of them then.
  int TurnOf(const ir::Node& attention) const {
    const int turn = match_.OnlyReader(attention.outputs[0]);
    return turn >= 0 && heads_.IsTurn(rewrite_.node(turn)) ? turn : -1;
  }

  // Of keys or values, which may be appended to past ones.
  Source Appended(int value) const {
    const ir::Node* const concat = match_.Maker(value, "Concat");
    const int64_t axis = concat == nullptr ? 0 : IntAttribute(*concat, "axis", 0);
    const bool appends = concat != nullptr && concat->inputs.size() == 2 && (axis == 2 || axis == -2);
    if (appends && !match_.IsPrivate(concat->inputs[1])) return {};
    Source source = SourceOf(appends ? concat->inputs[1] : value);
    if (appends) source.past = concat->inputs[0];
    if (!match_.IsReadOnce(value)) source.present = value;
    return source;
  }

  // Of a value with heads first: rotated or not, normalised or not, in either order, before or after they were turned.
  Source SourceOf(int value) const {
    Source source;
    bool turned = false;
    const int last = value;
    for (const ir::Node* maker = match_.Maker(value); maker != nullptr; maker = match_.Maker(value)) {
      const bool is_private = value == last || match_.IsPrivate(value);
      if (!turned && heads_.IsTurn(*maker)) {
        turned = true;
      } else if (is_private && source.cos < 0 && !source.part && IsRotationOfRows(*maker, turned)) {
        source.norm_last = source.norm >= 0;
        std::tie(source.cos, source.sin) = Unturned(maker->inputs[1], maker->inputs[2]);
        source.interleaved = IntAttribute(*maker, "interleaved", 0) != 0;
      } else if (is_private && source.norm < 0 && !source.part && IsHeadNorm(*maker)) {
        source.norm = maker->inputs[1];
        source.normalised = turned ? value : -1;
        source.epsilon = FloatAttribute(*maker, "epsilon", 1e-5f);
      } else if (const auto part = source.part ? std::nullopt : MatchRowPart(graph_, match_, value)) {
        source.part = part;
        source.apart = turned ? value : -1;
      } else {
        break;
      }
      value = maker->inputs[0];
    }
    const auto& dims = graph_.value(value).dims;
    if (turned && dims && dims->size() == 4) source.rows = value;
    return source;
  }

  // By angles of each row, the same for all heads; RotaryEmbedding takes those of heads for rows, too.
  bool IsRotationOfRows(const ir::Node& node, bool rows_first) const {
    if (!node.Is("RotaryEmbedding", ops::kFusedDomain)) return false;
    const auto &x = *graph_.value(node.inputs[0]).dims, &cos = *graph_.value(node.inputs[1]).dims;
    const auto of_angles = [&](size_t axis) {
      const size_t ahead = x.size() - cos.size();
      return axis < ahead ? ir::Dim{.size = 1} : cos[axis - ahead];
    };
    const size_t rows = rows_first ? 1 : 2, heads = rows_first ? 2 : 1;
    return of_angles(heads).size == 1 && of_angles(rows).Equals(x[rows]);
  }

  // Cosines and sines that the host turned together with the heads, of which they have one: the same in the same order.
  std::pair<int, int> Unturned(int cos, int sin) const {
    const ir::Node *const of_cos = match_.Maker(cos), *const of_sin = match_.Maker(sin);
    const bool turned = of_cos != nullptr && of_sin != nullptr && heads_.IsTurn(*of_cos) && heads_.IsTurn(*of_sin);
    return turned ? std::pair(of_cos->inputs[0], of_sin->inputs[0]) : std::pair(cos, sin);
  }

  bool IsHeadNorm(const ir::Node& node) const {
    if (!(node.Is("RMSNormalization") || node.Is("SimplifiedLayerNormalization")) || node.outputs.size() != 1) {
      return false;
    }
    const int64_t axis = IntAttribute(node, "axis", -1);
    return (axis == -1 || axis == 3) && IsVectorOfLast(graph_, node.inputs[1], node.inputs[0]) &&
           graph_.value(node.inputs[1]).type == graph_.value(node.inputs[0]).type;
  }

  // Norms of queries and keys are done together or not at all, and so are the parts of all three: the nodes of others
  // stay. Why there is nothing to read then; null: there is.
  static const char* WithoutOthers(Source& q, Source& k, Source& v) {
    if (q.norm < 0 || k.norm < 0 || q.epsilon != k.epsilon || q.norm_last != k.norm_last) {
      for (Source* const source : {&q, &k}) {
        if (source->norm < 0) continue;
        if (source->norm_last) source->cos = source->sin = -1, source->interleaved = source->norm_last = false;
        source->rows = source->normalised;
        source->norm = -1;
        source->part.reset();
      }
      if (q.rows < 0 || k.rows < 0) return "queries and keys are not normalised alike, with their heads first";
    }
    if (ArePacked(q, k, v)) return nullptr;
    for (Source* const source : {&q, &k, &v}) {
      if (source->part) source->rows = source->apart;
      source->part.reset();
      if (source->rows < 0) return "the parts of each head are not queries, keys and values, in that order";
    }
    return nullptr;
  }

  // Whether each head of one tensor is its queries, keys and values, in that order.
  static bool ArePacked(const Source& q, const Source& k, const Source& v) {
    if (!q.part || !k.part || !v.part || q.rows != k.rows || q.rows != v.rows) return false;
    return q.part->begin == 0 && k.part->begin == q.part->end && k.part->end == 2 * q.part->end &&
           v.part->begin == k.part->end && v.part->end == v.part->size;
  }

  const char* WhyNot(int index, const Source& q, const Source& k, const Source& v) const {
    if (v.norm >= 0 || v.cos >= 0) return "values are normalised or rotated";
    if (q.cos != k.cos || q.sin != k.sin) return "queries and keys are rotated by other angles";
    if (q.interleaved != k.interleaved) return "either queries or keys have neighbours rotated";
    if ((k.past < 0) != (v.past < 0)) return "keys are appended and values are not, or the other way round";
    const auto &q_dims = *graph_.value(q.rows).dims, &k_dims = *graph_.value(k.rows).dims,
               &v_dims = *graph_.value(v.rows).dims;
    for (size_t i = 0; i < 2; ++i) {
      if (!q_dims[i].Equals(k_dims[i]) || !q_dims[i].Equals(v_dims[i])) {
        return "queries, keys and values are not stated to have the same rows";
      }
    }
    if (k.present >= 0 && k.present == v.present) return "keys are the values";
    for (const int present : {k.present, v.present}) {
      if (present < 0) continue;
      const auto& readers = match_.uses().readers(present);
      if (std::ranges::any_of(readers, [&](const ir::Uses::Use& use) { return use.node < index; })) {
        return "keys or values are read before";
      }
    }
    return nullptr;
  }

  // Whether somebody asks for the dimensions of the result, as it is or turned, before the last node does its part.
  bool IsAskedFor(int result, int last) const {
    const int turn = match_.OnlyReader(result);
    return !match_.IsReadOnce(result) || (turn != last && !match_.IsReadOnce(rewrite_.node(turn).outputs[0]));
  }

  ir::Node Fused(int index, const Source& q, const Source& k, const Source& v) const {
    const ir::Node& attention = rewrite_.node(index);
    ir::Node fused = rewrite_.Instead(index, ops::kFusedDomain, "Attention", 1);
    const int mask = attention.inputs.size() > 3 ? attention.inputs[3] : -1;
    fused.inputs = {Merged(q), Merged(k), Merged(v), mask, k.past, v.past, q.cos, q.sin, q.norm, k.norm};
    fused.attributes = attention.attributes;
    if (q.part) {
      fused.inputs[1] = fused.inputs[2] = -1;
      fused.attributes["packed_by_head"] = int64_t{1};
      fused.attributes["head_size"] = q.part->end;
    }
    fused.attributes["q_num_heads"] = graph_.value(attention.inputs[0]).dims->at(1).size;
    fused.attributes["kv_num_heads"] = graph_.value(attention.inputs[1]).dims->at(1).size;
    if (q.norm >= 0) fused.attributes["norm_epsilon"] = q.epsilon;
    if (q.norm_last) fused.attributes["norm_last"] = int64_t{1};
    if (q.interleaved) fused.attributes["rotary_interleaved"] = int64_t{1};
    return fused;
  }

  // [batch, rows, heads * size] where there is that.
  int Merged(const Source& source) const {
    const int merged = heads_.MergedSource(source.rows);
    return merged >= 0 ? merged : source.rows;
  }

  const Rewriter& rewrite_;
  const ir::Graph& graph_;
  const Matcher& match_;
  const HeadsMatch heads_;
  NodeRemoval& gone_;
};

}  // namespace

void FuseDecoderAttention(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kDecoderAttention);
  NodeRemoval gone(graph);
  const Fuser fuser(rewrite, gone);
  for (int n = 0; n < rewrite.node_count(); ++n) fuser.Fuse(n);
  gone.Apply(graph);
}

}  // namespace cudaep::graph
