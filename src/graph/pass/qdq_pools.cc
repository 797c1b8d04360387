#include "graph/pass/qdq_pools.h"

#include <algorithm>
#include <ranges>
#include <utility>
#include <vector>

#include "graph/pass/qdq_moves.h"
#include "graph/pass/quantization.h"
#include "graph/pass/rewrite.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

class Pooler {
 public:
  explicit Pooler(const Rewriter& rewrite) : rewrite_(rewrite), graph_(rewrite.graph) {}

  void Visit(int index) const {
    const ir::Node& quantize = rewrite_.node(index);
    const auto y = QuantizationOf(graph_, quantize, "QuantizeLinear");
    if (!y) return;
    std::vector<const ir::Node*> moves;  // from the last one on
    std::vector<int> means = {y->real};
    const ir::Node* pool = rewrite_.match.Maker(y->real);
    while (pool != nullptr && MovesElements(*pool)) {
      moves.push_back(pool);
      means.push_back(pool->inputs[0]);
      pool = rewrite_.match.Maker(pool->inputs[0]);
    }
    if (pool == nullptr || !pool->Is("GlobalAveragePool")) return;
    const auto x = CodedValueOf(graph_, rewrite_.match, pool->inputs[0]);
    if (!x) return;
    const bool leaves = !std::ranges::all_of(means, [&](int mean) { return rewrite_.match.IsPrivate(mean); });
    if (leaves) return rewrite_.Miss(index, "somebody else reads the mean");
    if (const char* const why = Refusal(*x, *y, quantize)) return rewrite_.Miss(index, why);

    ir::Node made = rewrite_.Instead(index, ops::kMicrosoftDomain, "QLinearGlobalAveragePool", 1);
    made.attributes = {{"channels_last", int64_t{0}}};
    made.inputs = {x->linear.codes};
    AddCoding(graph_, *x->node, x->linear.type, made);
    AddCoding(graph_, quantize, y->type, made);
    std::vector<ir::Node> before;
    for (const ir::Node* const move : std::views::reverse(moves)) {
      const ir::Value mean = graph_.value(move->inputs[0]);
      made.outputs = {graph_.AddValue({.name = mean.name, .type = y->type, .dims = mean.dims})};
      before.push_back(std::move(made));
      made = *move;
      made.inputs[0] = before.back().outputs[0];
      made.outputs = quantize.outputs;
      made.sources.clear();  // which those of the whole have
    }
    if (!rewrite_.Replace(index, std::move(made), std::move(before))) rewrite_.Miss(index, "no kernel takes the codes");
  }

 private:
  // Null: nothing speaks against it.
  const char* Refusal(const CodedValue& x, const Quantization& y, const ir::Node& quantize) const {
    if (!x.linear.is_uniform() || !y.is_uniform()) return "codes around GlobalAveragePool have several scales";
    if (!x.linear.is_moderate() || !y.is_moderate())
      return "scales around GlobalAveragePool are too large or too small";
    if (!IsFloat(graph_, x.node->inputs[1]) || !IsFloat(graph_, quantize.inputs[1]) ||
        !IsFloat(graph_, x.linear.real)) {
      return "GlobalAveragePool is not between codes of fp32";
    }
    if (x.linear.type != y.type) return "codes before and behind GlobalAveragePool are of two types";
    return nullptr;
  }

  const Rewriter& rewrite_;
  ir::Graph& graph_;
};

}  // namespace

void PoolCodes(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kQdq);
  const Pooler pooler(rewrite);
  for (int n = 0; n < rewrite.node_count(); ++n) pooler.Visit(n);
  rewrite.PlaceNodesInFront();
}

}  // namespace cudaep::graph
