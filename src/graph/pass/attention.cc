#include "graph/pass/attention.h"

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
    std::vector<ir::Node> before = JoinMasks(*core);
    const int merge = MergeOf(index, *core);
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
      rewrite_.Replace(index, Attention(index, *core, core->q, core->k, core->v), std::move(before));
    } else {
      // The product had them turned, too: into columns.
      ir::Node turned = HeadsFirst(*core);
      ir::Node fused = Attention(index, *core, core->q, turned.outputs[0], core->v);
      before.push_back(std::move(turned));
      rewrite_.Replace(index, std::move(fused), std::move(before));
    }
  }

 private:
  ir::Node Attention(int at, const AttentionCore& core, int q, int k, int v) const {
    ir::Node fused = rewrite_.Instead(at, ops::kOnnxDomain, "Attention", 23);
    fused.inputs = {q, k, v};
    if (core.mask >= 0) fused.inputs.push_back(core.mask);
    fused.attributes = {{"scale", static_cast<float>(core.scale)}};
    if (core.window_mask >= 0) fused.attributes.insert({"mask_repeats", int64_t{1}});
    if (!core.guarded) fused.attributes.insert({"empty_is_nan", int64_t{1}});
    return fused;
  }

  // One mask, of a batch of all windows, of that of windows and the one beside it: nodes that make it. They read
  // nothing that the scores depend on, so that masks of constants stay what is computed once.
  std::vector<ir::Node> JoinMasks(AttentionCore& core) const {
    std::vector<ir::Node> nodes;
    if (core.window_mask < 0) return nodes;
    const ir::Value whole = graph_.value(core.window_mask);
    std::vector<ir::Dim> dims(whole.dims->begin() + 1, whole.dims->end());
    const auto add = [&](const char* op, std::vector<int> inputs) {
      const int output = rewrite_.graph.AddValue({.name = whole.name, .type = whole.type, .dims = dims});
      nodes.push_back({.name = whole.name, .op_type = op, .since_version = 13, .inputs = std::move(inputs)});
      nodes.back().outputs = {output};
      return output;
    };
    std::vector<int64_t> target(dims.size());
    for (size_t i = 0; i < dims.size(); ++i) target[i] = dims[i].size;
    const int windows = add("Reshape", {core.window_mask, AddInts(rewrite_.graph, whole.name, target)});
    if (core.mask >= 0) {
      const std::vector<ir::Dim>& other = *graph_.value(core.mask).dims;
      for (size_t i = 0; i < other.size(); ++i) {
        ir::Dim& dim = dims[dims.size() - other.size() + i];
        if (dim.size == 1) dim = other[i];
      }
    }
    core.mask = core.mask < 0 ? windows : add("Add", {windows, core.mask});
    return nodes;
  }

  // Whether the keys exist as [batch, rows, heads, size].
  static bool IsTurned(const AttentionCore& core) {
    return core.k < 0 && core.k_order == std::vector<int64_t>{0, 2, 1, 3};
  }

  // The keys as [batch, heads, rows, size], of those that lie in another order.
  ir::Node HeadsFirst(const AttentionCore& core) const {
    const ir::Value& keys = graph_.value(core.keys);
    ir::Value turned{.name = keys.name, .type = keys.type, .kind = keys.kind, .dims = keys.dims};
    std::swap(turned.dims->at(2), turned.dims->at(3));
    return {.name = turned.name,
            .op_type = "Transpose",
            .since_version = 13,
            .attributes = {{"perm", core.k_order}},
            .inputs = {core.k_elsewhere},
            .outputs = {rewrite_.graph.AddValue(std::move(turned))}};
  }

  // The value, or that of which it is a multiple.
  int Unscaled(int value, double& scale) const {
    const ProductOf product = match_.Factors(value);
    if (product.values.size() != 1 || !graph_.SameDims(product.values[0], value)) return value;
    scale *= product.constant;
    return product.values[0];
  }

  // [batch, rows, heads, size] of which the value is the transpose; -1: of none.
  int RowsFirst(int value) const {
    const ir::Node* const turn = match_.Maker(value, "Transpose");
    return turn != nullptr && heads_.IsTurn(*turn) ? turn->inputs[0] : -1;
  }

  // The Reshape that merges the result's heads, the result having the queries' batch and rows; -1: there is none.
  int MergeOf(int index, const AttentionCore& core) const {
    const auto& q = *graph_.value(core.q).dims;
    return heads_.MergeOf(rewrite_.node(index).outputs[0], q[0], q[2], core.heads * core.v_head_size);
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
