#include "graph/pass/conv_epilogue.h"

#include <algorithm>

#include "graph/pass/activation_match.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

class Fuser {
 public:
  Fuser(ir::Graph& graph, const PassContext& context) : graph_(graph), context_(context), uses_(graph), gone_(graph) {}

  void Run() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (graph_.nodes[n].Is("Conv") && !graph_.nodes[n].on_host) Fuse(static_cast<int>(n));
    }
    gone_.Apply(graph_);
  }

 private:
  ir::Node& node(int index) { return graph_.nodes[static_cast<size_t>(index)]; }

  // The convolution ends where the last node joined to it stood: its residual may be made after it.
  void Fuse(int conv) {
    ir::Node fused = node(conv);
    fused.domain = ops::kFusedDomain;
    fused.since_version = 1;
    fused.inputs.resize(4, -1);
    int last = conv;
    std::vector<int> joined;
    const auto join = [&](int next) {
      fused.outputs = node(next).outputs;
      fused.sources.insert(fused.sources.end(), node(next).sources.begin(), node(next).sources.end());
      joined.push_back(last);
      last = next;
    };
    const int next = uses_.OnlyReader(fused.outputs[0]);
    if (next >= 0 && !gone_.IsMarked(next) && node(next).Is("Add")) {  // of two convolutions the first has the sum
      const int residual = ResidualOf(node(next), fused.outputs[0]);
      if (residual >= 0) {
        fused.inputs[3] = residual;
        join(next);
      } else {
        context_.notes.push_back({Fusion::kConvEpilogue,
                                  {fused.sources.back(), node(next).sources.front()},
                                  "the sum is not stated to have the dimensions of the convolution"});
      }
    }
    if (const auto found = MatchActivation(graph_, uses_, fused.outputs[0], context_.settings)) {
      fused.attributes["activation"] = std::string(ActivationName(found->activation));
      std::vector<float> parameters{found->parameters.a, found->parameters.b};
      parameters.resize(static_cast<size_t>(ParameterCount(found->activation)));
      if (!parameters.empty()) fused.attributes["activation_params"] = std::move(parameters);
      for (const int index : found->nodes) join(index);
    }
    if (last == conv || !context_.IsSupported(graph_, fused)) return;
    context_.notes.push_back({Fusion::kConvEpilogue, fused.sources});
    for (const int index : joined) gone_.Mark(index);
    node(last) = std::move(fused);
  }

  // The other summand, of the result's dimensions; -1: there is none.
  int ResidualOf(const ir::Node& add, int value) const {
    const int other = add.inputs[0] == value ? add.inputs[1] : add.inputs[0];
    return other != value && !graph_.value(other).is_constant() && graph_.SameDims(other, value) ? other : -1;
  }

  ir::Graph& graph_;
  const PassContext& context_;
  const ir::Uses uses_;
  NodeRemoval gone_;
};

}  // namespace

void FuseConvEpilogues(ir::Graph& graph, const PassContext& context) { Fuser(graph, context).Run(); }

}  // namespace cudaep::graph
