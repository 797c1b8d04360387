#include "graph/pass/product_epilogue.h"

#include "graph/pass/activation_match.h"
#include "graph/pass/fused_product.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

class Fuser {
 public:
  explicit Fuser(const Rewriter& rewrite) : rewrite_(rewrite), graph_(rewrite.graph) {}

  void Fuse(int index) const {
    std::optional<ir::Node> fused = AsFusedProduct(rewrite_, index);
    if (!fused) return;
    const int product = fused->outputs[0];
    int last = index;
    for (int next = NextOf(last); next >= 0 && JoinSum(rewrite_.node(next), last, product, *fused);
         next = NextOf(last)) {
      last = next;
    }
    const int biased = JoinBiasedGelu(last, product, *fused);
    last = biased == last ? JoinActivation(last, *fused) : biased;
    if (last == index) return;
    fused->name = rewrite_.node(last).name;
    fused->outputs = rewrite_.node(last).outputs;
    rewrite_.Replace(last, *std::move(fused));
  }

 private:
  // Of two products the first has the sum of both.
  int NextOf(int index) const {
    const int next = rewrite_.match.OnlyReader(rewrite_.node(index).outputs[0]);
    return next >= 0 && !rewrite_.IsTaken(next) ? next : -1;
  }

  bool JoinSum(const ir::Node& next, int last, int product, ir::Node& fused) const {
    const int summand = next.Is("Add") ? Matcher::Other(next, rewrite_.node(last).outputs[0]) : -1;
    if (summand < 0) return false;
    if (AddToProduct(graph_, summand, product, fused)) return true;
    rewrite_.Miss(last, "the sum is neither of a vector of the last dimension nor stated to have all dimensions");
    return false;
  }

  // Both return the node that ends the pattern then.
  int JoinBiasedGelu(int last, int product, ir::Node& fused) const {
    const int next = NextOf(last);
    if (next < 0) return last;
    const ir::Node& gelu = rewrite_.node(next);
    const bool by_erf = gelu.Is("BiasGelu", ops::kMicrosoftDomain);
    if (!by_erf && !gelu.Is("FastGelu", ops::kMicrosoftDomain)) return last;
    const bool has_bias = gelu.inputs.size() > 1 && gelu.inputs[1] >= 0;
    if (!has_bias || gelu.inputs[0] != rewrite_.node(last).outputs[0]) return last;
    if (!AddToProduct(graph_, gelu.inputs[1], product, fused)) return last;
    SetActivation(by_erf ? Activation::kGeluErf : Activation::kGeluTanh, {}, fused);
    return next;
  }

  int JoinActivation(int last, ir::Node& fused) const {
    const auto found = MatchActivationOf(rewrite_, rewrite_.node(last).outputs[0]);
    if (!found || ParameterCount(found->activation) != 0 || rewrite_.IsTaken(found->nodes.back())) return last;
    SetActivation(found->activation, found->parameters, fused);
    return found->nodes.back();
  }

  const Rewriter& rewrite_;
  const ir::Graph& graph_;
};

}  // namespace

void FuseProductEpilogues(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kProductEpilogue);
  const Fuser fuser(rewrite);
  for (int n = 0; n < rewrite.node_count(); ++n) fuser.Fuse(n);
}

}  // namespace cudaep::graph
