#include "graph/pass/projections.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "graph/pass/attention_match.h"
#include "graph/pass/gated.h"
#include "graph/pass/nbits_projections.h"
#include "graph/pass/part_match.h"
#include "graph/pass/product_parts.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

using Projections = std::array<ProductPart, 3>;

class Merger {
 public:
  explicit Merger(const Rewriter& rewrite) : rewrite_(rewrite), graph_(rewrite.graph) {}

  void Merge(int index) const {
    const ir::Node& node = rewrite_.node(index);
    if (IsPlain(node)) return MergeIntoAttention(index);
    if (node.Is("Attention", ops::kFusedDomain)) return MergeBefore(index);
    MergeGated(rewrite_, index);
    JoinNBitsProjections(rewrite_, index);
  }

 private:
  void MergeIntoAttention(int index) const {
    if (const std::optional<RowPart> queries = QueriesOfWhole(rewrite_.node(index))) return ReadWhole(index, *queries);
    const std::optional<Projections> parts = PartsOf(rewrite_.node(index));
    if (!parts) return;
    const auto& [q, k, v] = *parts;
    if (q.columns != k.columns) return rewrite_.Miss(index, "queries and keys have to have one size");
    if (rewrite_.node(index).attributes.contains("mask_repeats")) {
      return rewrite_.Miss(index, "the mask is of fewer batch entries");
    }
    rewrite_.Replace(index, Packed(index, *parts));
  }

  // The regions' own Attention: a product in front of it, of which it reads the parts.
  void MergeBefore(int index) const {
    const ir::Node& node = rewrite_.node(index);
    if (node.inputs[1] < 0) return;
    const int64_t heads = IntAttribute(node, "q_num_heads", 1);
    ir::Node fused = node;
    fused.inputs[1] = fused.inputs[2] = -1;
    fused.sources.clear();
    if (const std::optional<RowPart> queries = QueriesOfWhole(node)) {
      fused.inputs[0] = queries->whole;
      fused.attributes["head_size"] = queries->end / heads;
      rewrite_.Replace(index, std::move(fused));
    } else if (const std::optional<Projections> parts = PartsOf(node)) {
      ir::Node product = JoinedProduct(graph_, *parts);
      fused.inputs[0] = product.outputs[0];
      fused.attributes["head_size"] = parts->front().columns / heads;
      rewrite_.Replace(index, std::move(fused), {std::move(product)});
    }
  }

  // The regions' own Attention in place of ONNX's, of the tensor whose parts that reads.
  void ReadWhole(int index, const RowPart& queries) const {
    const ir::Node& node = rewrite_.node(index);
    ir::Node fused = rewrite_.Instead(index, ops::kFusedDomain, "Attention", 1);
    fused.inputs = {queries.whole, -1, -1, node.inputs.size() > 3 ? node.inputs[3] : -1};
    fused.attributes = node.attributes;
    fused.attributes["head_size"] = queries.end / IntAttribute(node, "q_num_heads", 1);
    rewrite_.Replace(index, std::move(fused));
  }

  // The queries as a part of [batch, rows, size] of which they, keys and values are all parts, in that order.
  std::optional<RowPart> QueriesOfWhole(const ir::Node& node) const {
    std::array<RowPart, 3> parts;
    int64_t end = 0;
    for (size_t i = 0; i < 3; ++i) {
      const auto part = MatchRowPart(graph_, rewrite_.match, node.inputs[i]);
      if (!part || part->begin != end || part->whole != (i == 0 ? part->whole : parts[0].whole)) return std::nullopt;
      parts[i] = *part;
      end = part->end;
    }
    const bool fits = end == parts[0].size && graph_.value(parts[0].whole).dims->size() == 3;
    return fits ? std::optional(parts[0]) : std::nullopt;
  }

  // ONNX Attention of nothing but heads, a scale and a mask of floats.
  bool IsPlain(const ir::Node& node) const {
    if (node.on_host || !node.Is("Attention") || node.outputs.size() != 1 || node.inputs.size() > 4) return false;
    for (const auto& [name, value] : node.attributes) {
      constexpr std::string_view kKnown[] = {"scale", "empty_is_nan", "mask_repeats", "q_num_heads", "kv_num_heads"};
      if (std::ranges::find(kKnown, name) == std::end(kKnown)) return false;
    }
    const int64_t heads = IntAttribute(node, "q_num_heads", 0);
    return heads > 0 && heads == IntAttribute(node, "kv_num_heads", 0) && FloatAttribute(node, "scale", 1) != 0 &&
           (node.inputs.size() < 4 || node.inputs[3] < 0 ||
            graph_.value(node.inputs[3]).type == graph_.value(node.inputs[0]).type) &&
           MaskBroadcasts(graph_, node);
  }

  // Queries, keys and values as products of one tensor of rows.
  std::optional<Projections> PartsOf(const ir::Node& attention) const {
    Projections parts;
    for (size_t i = 0; i < 3; ++i) {
      const auto part = MatchProductPart(rewrite_, attention.inputs[i]);
      if (!part || !part->activation.empty() || part->x != (i == 0 ? part->x : parts[0].x)) return std::nullopt;
      parts[i] = *part;
    }
    const ir::Value& x = graph_.value(parts[0].x);
    if (x.dims->size() != 3 || !kFloatTypesNoDouble.Contains(x.type)) return std::nullopt;
    return parts;
  }

  ir::Node Packed(int index, const Projections& parts) const {
    const ir::Node& attention = rewrite_.node(index);
    ir::Node fused = rewrite_.Instead(index, ops::kMicrosoftDomain, "Attention", 1);
    fused.inputs = {parts[0].x, JoinedWeights(graph_, parts), JoinedBias(graph_, parts)};
    if (attention.inputs.size() > 3 && attention.inputs[3] >= 0) {
      fused.inputs.insert(fused.inputs.end(), {-1, -1, attention.inputs[3]});
    }
    fused.attributes = {
        {"num_heads", IntAttribute(attention, "q_num_heads", 0)},
        {"qkv_hidden_sizes", std::vector<int64_t>{parts[0].columns, parts[1].columns, parts[2].columns}}};
    for (const char* name : {"scale", "empty_is_nan"}) {
      const auto found = attention.attributes.find(std::string_view(name));
      if (found != attention.attributes.end()) fused.attributes.insert(*found);
    }
    return fused;
  }

  const Rewriter& rewrite_;
  ir::Graph& graph_;
};

}  // namespace

void MergeProjections(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kProjections);
  const Merger merger(rewrite);
  for (int n = 0; n < rewrite.node_count(); ++n) merger.Merge(n);
  rewrite.PlaceNodesInFront();
}

}  // namespace cudaep::graph
