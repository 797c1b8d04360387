#include "graph/pass/gated.h"

#include <array>

#include "graph/pass/activation_match.h"
#include "graph/pass/part_match.h"
#include "graph/pass/product_parts.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

class Merger {
 public:
  Merger(const Rewriter& rewrite, int index)
      : rewrite_(rewrite), graph_(rewrite.graph), match_(rewrite.match), index_(index) {}

  void Merge() const {
    if (!MergeProducts() && !MergeHalves(0)) MergeHalves(1);
  }

 private:
  const std::vector<int>& factors() const { return rewrite_.node(index_).inputs; }

  // Their epilogues have the activation already.
  bool MergeProducts() const {
    auto a = MatchProductPart(rewrite_, factors()[0]), b = MatchProductPart(rewrite_, factors()[1]);
    if (!a || !b || a->x != b->x || a->columns != b->columns ||
        !kFloatTypesNoDouble.Contains(graph_.value(a->x).type)) {
      return false;
    }
    if (a->activation.empty()) std::swap(a, b);
    if (a->activation.empty() || !b->activation.empty()) return false;
    ir::Node product = JoinedProduct(graph_, std::array{*a, *b});
    const int joined = product.outputs[0];
    return rewrite_.Replace(index_, Gated(joined, 0, a->activation), {std::move(product)});
  }

  // With the factor of this index activated.
  bool MergeHalves(size_t activated) const {
    const ir::Node* const last = match_.Maker(factors()[activated]);
    const auto plain = MatchRowPart(graph_, match_, factors()[1 - activated]);
    if (last == nullptr || !plain || !kFloatTypesNoDouble.Contains(graph_.value(plain->whole).type)) return false;
    const int half = plain->IsHalf(1) ? 0 : 1;
    if (!plain->IsHalf(1 - half)) return false;
    for (const int input : last->inputs) {
      const auto part = MatchRowPart(graph_, match_, input);
      if (!part || part->whole != plain->whole || !part->IsHalf(half)) continue;
      const auto found = MatchActivation(graph_, match_.uses(), input, rewrite_.settings());
      const bool ends = found && found->nodes.back() == match_.MakerIndex(factors()[activated]);
      if (!ends || ParameterCount(found->activation) != 0 || !match_.IsPrivate(factors()[activated])) return false;
      return rewrite_.Replace(index_, Gated(plain->whole, half, std::string(ActivationName(found->activation))));
    }
    return false;
  }

  ir::Node Gated(int whole, int half, std::string activation) const {
    ir::Node fused = rewrite_.Instead(index_, ops::kFusedDomain, "Gated", 1);
    fused.inputs = {whole};
    fused.attributes = {{"activation", std::move(activation)}, {"activated", int64_t{half}}};
    return fused;
  }

  const Rewriter& rewrite_;
  ir::Graph& graph_;
  const Matcher& match_;
  int index_;
};

}  // namespace

void MergeGated(const Rewriter& rewrite, int index) {
  const ir::Node& node = rewrite.node(index);
  if (!node.on_host && node.Is("Mul") && node.inputs[0] != node.inputs[1]) Merger(rewrite, index).Merge();
}

}  // namespace cudaep::graph
