#include "graph/pass/conv_epilogue.h"

#include "graph/pass/activation_match.h"
#include "graph/pass/rewrite.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

constexpr size_t kResidual = 3;

// The convolution ends where the last node joined to it stood: its residual may be made after it.
void Fuse(const Rewriter& rewrite, int index) {
  const ir::Node& conv = rewrite.node(index);
  if (conv.on_host || !conv.Is("Conv") || rewrite.IsTaken(index)) return;
  const ir::Graph& graph = rewrite.graph;
  ir::Node fused = rewrite.Instead(index, ops::kFusedDomain, "Conv", 1);
  fused.inputs = conv.inputs;
  fused.inputs.resize(kResidual + 1, -1);
  fused.attributes = conv.attributes;
  int last = index;
  const int result = conv.outputs[0], next = rewrite.match.uses().OnlyReader(result);
  if (next >= 0 && !rewrite.IsTaken(next) && rewrite.node(next).Is("Add")) {  // of two convolutions the first has it
    const int residual = Matcher::Other(rewrite.node(next), result);
    if (residual >= 0 && !graph.value(residual).is_constant() && graph.SameDims(residual, result)) {
      fused.inputs[kResidual] = residual;
      last = next;
    } else {
      rewrite.Miss(next, "the sum is not stated to have the dimensions of the convolution");
    }
  }
  const int value = rewrite.node(last).outputs[0];
  if (const auto found = MatchActivationOf(rewrite, value)) {
    SetActivation(found->activation, found->parameters, fused);
    last = found->nodes.back();
  }
  if (last == index) return;
  fused.outputs = rewrite.node(last).outputs;
  rewrite.Replace(last, std::move(fused));
}

}  // namespace

void FuseConvEpilogues(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kConvEpilogue);
  for (int n = 0; n < rewrite.node_count(); ++n) Fuse(rewrite, n);
}

}  // namespace cudaep::graph
