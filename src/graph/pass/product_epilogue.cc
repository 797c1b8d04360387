#include "graph/pass/product_epilogue.h"

#include "graph/pass/activation_match.h"
#include "graph/pass/rewrite.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

constexpr size_t kBias = 2, kResidual = 3;

class Fuser {
 public:
  explicit Fuser(const Rewriter& rewrite) : rewrite_(rewrite), graph_(rewrite.graph) {}

  void Fuse(int index) const {
    std::optional<ir::Node> fused = Product(index);
    if (!fused) return;
    const int product = fused->outputs[0];
    int last = index;
    for (int next = NextOf(last); next >= 0 && JoinSum(rewrite_.node(next), last, product, *fused);
         next = NextOf(last)) {
      last = next;
    }
    last = JoinActivation(last, *fused);
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

  // The product alone, as the fused operator has it.
  std::optional<ir::Node> Product(int index) const {
    const ir::Node& node = rewrite_.node(index);
    if (node.on_host || !(node.Is("MatMul") || node.Is("Gemm"))) return std::nullopt;
    const auto &a = graph_.value(node.inputs[0]).dims, &b = graph_.value(node.inputs[1]).dims;
    if (!a || !b || a->size() < 2 || b->size() < 2) return std::nullopt;
    ir::Node fused = rewrite_.Instead(index, ops::kFusedDomain, "MatMul", 1);
    fused.inputs = {node.inputs[0], node.inputs[1], -1, -1};
    if (node.Is("MatMul")) return fused;
    for (const char* name : {"transA", "transB", "alpha"}) {
      const auto found = node.attributes.find(std::string_view(name));
      if (found != node.attributes.end()) fused.attributes.insert(*found);
    }
    if (node.inputs.size() < 3 || node.inputs[2] < 0) return fused;
    if (FloatAttribute(node, "beta", 1.0f) != 1.0f || !AddTo(node.inputs[2], node.outputs[0], fused)) {
      return std::nullopt;
    }
    return fused;
  }

  // A summand as bias or residual, where that place is free.
  bool AddTo(int summand, int product, ir::Node& fused) const {
    const size_t place = IsVectorOfLast(graph_, summand, product) ? kBias
                         : graph_.SameDims(summand, product)      ? kResidual
                                                                  : 0;
    if (place == 0 || fused.inputs[place] >= 0) return false;
    fused.inputs[place] = summand;
    return true;
  }

  bool JoinSum(const ir::Node& next, int last, int product, ir::Node& fused) const {
    const int summand = next.Is("Add") ? Matcher::Other(next, rewrite_.node(last).outputs[0]) : -1;
    if (summand < 0) return false;
    if (AddTo(summand, product, fused)) return true;
    rewrite_.Miss(last, "the sum is neither of a vector of the last dimension nor stated to have all dimensions");
    return false;
  }

  // The node that ends the pattern then.
  int JoinActivation(int last, ir::Node& fused) const {
    const int value = rewrite_.node(last).outputs[0];
    const auto found = MatchActivation(graph_, rewrite_.match.uses(), value, rewrite_.settings());
    if (!found || ParameterCount(found->activation) != 0 || rewrite_.IsTaken(found->nodes.back())) return last;
    fused.attributes["activation"] = std::string(ActivationName(found->activation));
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
