#include "graph/pass/attention.h"

#include "graph/pass/attention_mask.h"
#include "graph/pass/attention_match.h"
#include "graph/pass/heads_match.h"
#include "graph/pass/layout.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

class Fuser {
 public:
  explicit Fuser(const Rewriter& rewrite)
      : rewrite_(rewrite), graph_(rewrite.graph), match_(rewrite.match), heads_(graph_, match_) {}

  void Fuse(int index) const {
    std::optional<AttentionCore> core = MatchAttention(rewrite_, index);
    if (!core) return;
    std::vector<ir::Node> before = MakeMask(rewrite_, *core);
    if (core->one_head) return FuseOneHead(index, *core, std::move(before));
    const int merge = MergeOf(*core);
    // A merged result has as many elements as it would have without the mask, which then widens nothing.
    if (!core->mask_fits && merge < 0) {
      return rewrite_.Miss(index, "the mask is not stated to broadcast to the scores");
    }
    const int q = heads_.MergedSource(RowsFirst(core->q)), v = heads_.MergedSource(RowsFirst(core->v));
    const int k = heads_.MergedSource(core->k >= 0 ? RowsFirst(core->k) : IsTurned(*core) ? core->k_elsewhere : -1);
    if (merge >= 0 && q >= 0 && k >= 0 && v >= 0) {
      AttentionCore scaled = *core;
      const int plain_q = Unscaled(q, scaled.scale), plain_k = Unscaled(k, scaled.scale);
      ir::Node fused = Attention(merge, scaled, plain_q, plain_k, v);
      fused.attributes.insert({{"q_num_heads", core->heads}, {"kv_num_heads", core->kv_heads}});
      rewrite_.Replace(merge, std::move(fused), std::move(before));
    } else if (core->k >= 0) {
      rewrite_.Replace(core->result, Attention(core->result, *core, core->q, core->k, core->v), std::move(before));
    } else {
      // The product had them turned, too: into columns.
      ir::Node turned = HeadsFirst(*core);
      ir::Node fused = Attention(core->result, *core, core->q, turned.outputs[0], core->v);
      before.push_back(std::move(turned));
      rewrite_.Replace(core->result, std::move(fused), std::move(before));
    }
  }

 private:
  ir::Node Attention(int at, const AttentionCore& core, int q, int k, int v) const {
    ir::Node fused = rewrite_.Instead(at, ops::kOnnxDomain, "Attention", 23);
    fused.inputs = {q, k, v};
    if (core.mask >= 0) fused.inputs.push_back(core.mask);
    fused.attributes = {{"scale", static_cast<float>(core.scale)}};
    if (core.softcap != 0) fused.attributes.insert({"softcap", static_cast<float>(core.softcap)});
    if (core.window_mask >= 0) fused.attributes.insert({"mask_repeats", int64_t{1}});
    if (!core.guarded) fused.attributes.insert({"empty_is_nan", int64_t{1}});
    return fused;
  }

  // As many batch entries of one head each, between views that add that dimension and take it away.
  void FuseOneHead(int index, const AttentionCore& core, std::vector<ir::Node> before) const {
    const auto apart = [&](int value) {
      std::vector<ir::Dim> dims = *graph_.value(value).dims;
      dims.insert(dims.begin() + 1, ir::Dim{.size = 1});
      before.push_back(OfOneHead(value, std::move(dims)));
      return before.back().outputs[0];
    };
    AttentionCore four = core;
    int k = core.k;
    if (k < 0) {
      before.push_back(HeadsFirst(core));
      k = before.back().outputs[0];
    }
    k = apart(k);
    const int q = apart(core.q), v = apart(core.v);
    if (core.mask >= 0 && graph_.value(core.mask).dims->size() == 3) four.mask = apart(core.mask);
    ir::Node attention = Attention(index, four, q, k, v);
    const ir::Value& result = graph_.value(rewrite_.node(index).outputs[0]);
    std::vector<ir::Dim> dims(graph_.value(q).dims->begin(), graph_.value(q).dims->end() - 1);
    dims.push_back(graph_.value(v).dims->back());
    attention.outputs = {rewrite_.graph.AddValue({.name = result.name, .type = result.type, .dims = std::move(dims)})};
    ir::Node flat = rewrite_.Instead(index, ops::kOnnxDomain, "Squeeze", 13);
    flat.inputs = {attention.outputs[0], AddInts(rewrite_.graph, flat.name, {1})};
    before.push_back(std::move(attention));
    rewrite_.Replace(index, std::move(flat), std::move(before));
  }

  // A view with a dimension of one head.
  ir::Node OfOneHead(int value, std::vector<ir::Dim> dims) const {
    const ir::Value from = graph_.value(value);
    return {.name = from.name,
            .op_type = "Unsqueeze",
            .since_version = 13,
            .inputs = {value, AddInts(rewrite_.graph, from.name, {1})},
            .outputs = {rewrite_.graph.AddValue({.name = from.name, .type = from.type, .dims = std::move(dims)})}};
  }

  // Whether the keys exist as [batch, rows, heads, size].
  static bool IsTurned(const AttentionCore& core) {
    return core.k < 0 && core.k_order == std::vector<int64_t>{0, 2, 1, 3};
  }

  // The keys as [.., rows, size], of those that lie in another order.
  ir::Node HeadsFirst(const AttentionCore& core) const {
    const ir::Value& keys = graph_.value(core.keys);
    ir::Value turned{.name = keys.name, .type = keys.type, .kind = keys.kind, .dims = keys.dims};
    std::swap(turned.dims->rbegin()[0], turned.dims->rbegin()[1]);
    return {.name = turned.name,
            .op_type = "Transpose",
            .since_version = 13,
            .attributes = {{"perm", core.k_order}},
            .inputs = {core.k_elsewhere},
            .outputs = {rewrite_.graph.AddValue(std::move(turned))}};
  }

  // The value, or that of which it is a multiple.
  int Unscaled(int value, double& scale) const {
    const ProductOf product = match_.Scaled(value);
    scale *= product.constant;
    return product.values[0];
  }

  // [batch, rows, heads, size] of which the value is the transpose; -1: of none.
  int RowsFirst(int value) const {
    const ir::Node* const turn = match_.Maker(value, "Transpose");
    return turn != nullptr && heads_.IsTurn(*turn) ? turn->inputs[0] : -1;
  }

  // The Reshape that merges the result's heads, the result having the queries' batch and rows; -1: there is none.
  int MergeOf(const AttentionCore& core) const {
    const auto& q = *graph_.value(core.q).dims;
    return heads_.MergeOf(rewrite_.node(core.result).outputs[0], q[0], q[2], core.heads * core.v_head_size);
  }

  const Rewriter& rewrite_;
  const ir::Graph& graph_;
  const Matcher& match_;
  const HeadsMatch heads_;
};

}  // namespace

void FuseAttention(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kAttention);
  const Fuser fuser(rewrite);
  for (int n = 0; n < rewrite.node_count(); ++n) fuser.Fuse(n);
  rewrite.PlaceNodesInFront();
}

}  // namespace cudaep::graph
