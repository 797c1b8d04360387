#include "graph/pass/conv_epilogue.h"

#include "graph/pass/activation_match.h"
#include "graph/pass/rewrite.h"
#include "ops/conv/conv_parts.h"
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
  // Takes the sum that is next, if it is one of two tensors of the same dimensions.
  const auto take_sum = [&] {
    const int value = rewrite.node(last).outputs[0], next = rewrite.match.uses().OnlyReader(value);
    if (next < 0 || rewrite.IsTaken(next) || !rewrite.node(next).Is("Add")) return false;  // of two the first has it
    const int residual = Matcher::Other(rewrite.node(next), value);
    if (residual < 0 || graph.value(residual).is_constant() || !graph.SameDims(residual, value)) {
      rewrite.Miss(next, "the sum is not stated to have the dimensions of the convolution");
      return false;
    }
    fused.inputs[kResidual] = residual;
    last = next;
    return true;
  };
  const bool adds_first = take_sum();
  if (const auto found = MatchActivationOf(rewrite, rewrite.node(last).outputs[0])) {
    SetActivation(found->activation, found->parameters, fused);
    last = found->nodes.back();
    const bool compiles = ops::CompilesFor(found->activation, ops::ConvOptions(rewrite.settings()));
    if (!adds_first && compiles && take_sum()) fused.attributes["adds_last"] = int64_t{1};
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
