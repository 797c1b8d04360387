#include "graph/pass/embedding_bag.h"

#include <algorithm>

#include "graph/ir/constants.h"
#include "graph/pass/rewrite.h"
#include "graph/shape/host_operator.h"
#include "ops/reduce/segment_reduce.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

size_t Index(ops::SegmentInput input) { return static_cast<size_t>(input); }

class BagMatch {
 public:
  explicit BagMatch(const Rewriter& rewrite) : rewrite_(rewrite), graph_(rewrite.graph), match_(rewrite.match) {}

  void Fuse(int index) const {
    ir::Node bag = rewrite_.node(index);
    if (bag.inputs.size() <= Index(ops::kSegmentIndices)) LookUp(bag);
    if (AreNextStarts(bag)) bag.inputs[Index(ops::kSegmentEnds)] = -1;
    std::vector<int> moved;
    if (bag.inputs[Index(ops::kSegmentEnds)] < 0) moved = TakeTail(bag);
    bag.sources.clear();  // they come again with all that it does
    if (!rewrite_.Replace(index, std::move(bag))) return rewrite_.Miss(index, "no kernel takes it");
    for (const int node : moved) rewrite_.node(node).on_host = true;
  }

 private:
  // Takes the lookup of its rows into the node, where there is one.
  void LookUp(ir::Node& bag) const {
    int rows = bag.inputs[Index(ops::kSegmentRows)], weights = -1;
    if (const ir::Node* const mul = match_.Maker(rows, "Mul"); mul != nullptr && match_.IsPrivate(rows)) {
      const bool first = match_.Maker(mul->inputs[0], "Unsqueeze") != nullptr;
      const ir::Node* const wide = match_.Maker(mul->inputs[first ? 0 : 1], "Unsqueeze");
      const auto axes = wide == nullptr ? std::nullopt : match_.IntsOf(*wide, "axes", 1);
      rows = mul->inputs[first ? 1 : 0];
      if (!axes || *axes != std::vector<int64_t>{1} || !IsList(wide->inputs[0])) return;
      weights = wide->inputs[0];
    }
    const ir::Node* const gather = match_.Maker(rows, "Gather");
    if (gather == nullptr || !match_.IsPrivate(rows) || IntAttribute(*gather, "axis", 0) != 0) return;
    const auto& table = graph_.value(gather->inputs[0]).dims;
    if (!table || table->size() != 2 || !IsList(gather->inputs[1])) return;
    bag.inputs.resize(Index(ops::kSegmentWeights), -1);
    bag.inputs[Index(ops::kSegmentRows)] = gather->inputs[0];
    bag.inputs[Index(ops::kSegmentIndices)] = gather->inputs[1];
    if (weights >= 0 && !IsOnes(weights, gather->inputs[1])) bag.inputs.push_back(weights);
  }

  // Whether its ends are all starts but the first.
  bool AreNextStarts(const ir::Node& bag) const {
    const ir::Node* const slice = match_.Maker(bag.inputs[Index(ops::kSegmentEnds)], "Slice");
    if (slice == nullptr || slice->inputs[0] != bag.inputs[Index(ops::kSegmentStarts)] || slice->inputs.size() < 3)
      return false;
    const auto is = [&](size_t input, int64_t least, int64_t most) {
      const auto numbers = ir::IntsOf(graph_, slice->inputs[input]);
      return numbers && numbers->size() == 1 && numbers->front() >= least && numbers->front() <= most;
    };
    const auto is_absent_or = [&](size_t input, int64_t wanted) {
      return input >= slice->inputs.size() || slice->inputs[input] < 0 || is(input, wanted, wanted);
    };
    return is(1, 1, 1) && is(2, INT32_MAX, INT64_MAX) && is_absent_or(3, 0) && is_absent_or(4, 1);
  }

  // Starts with one element behind them that is known on the host: the last end by itself. Gives the nodes that the
  // host evaluates then.
  std::vector<int> TakeTail(ir::Node& bag) const {
    const ir::Node* const concat = match_.Maker(bag.inputs[Index(ops::kSegmentStarts)], "Concat");
    if (concat == nullptr || concat->inputs.size() != 2 || IntAttribute(*concat, "axis", 0) != 0) return {};
    const int tail = concat->inputs[1];
    const bool is_one = IsList(tail) && graph_.value(tail).dims->front().size == 1;
    std::vector<int> moved;
    if (!is_one || !IsList(concat->inputs[0]) || !IsKnownOnHost(tail, moved)) return {};
    bag.inputs.resize(Index(ops::kSegmentTail), -1);
    bag.inputs[Index(ops::kSegmentStarts)] = concat->inputs[0];
    bag.inputs.push_back(tail);
    return moved;
  }

  // Whether the host knows it from dimensions, if it evaluates `moved` too: nodes that the device had as nobody read
  // their results on the host.
  bool IsKnownOnHost(int value, std::vector<int>& moved) const {
    const int maker = value < 0 ? -1 : match_.MakerIndex(value);
    if (maker < 0) return value < 0 || graph_.value(value).is_constant();
    const ir::Node& node = rewrite_.node(maker);
    if (node.on_host) return true;
    const bool is_view = node.Is("Unsqueeze") || node.Is("Squeeze") || node.Is("Gather") || node.Is("Cast");
    if (!is_view || graph_.value(value).output >= 0) return false;
    if (!MakeHostOperator(ir::NodeInfo(graph_, node, rewrite_.settings())).ok()) return false;
    moved.push_back(maker);
    return std::ranges::all_of(node.inputs, [&](int input) { return IsKnownOnHost(input, moved); });
  }

  bool IsList(int value) const { return graph_.value(value).dims && graph_.value(value).dims->size() == 1; }

  // One for each index, as torchlib has it where a model gives no weights.
  bool IsOnes(int weights, int indices) const {
    const ir::Node* const expand = match_.Maker(weights, "Expand");
    if (expand == nullptr || !match_.IsScalar(expand->inputs[0], 1)) return false;
    const int shape = match_.MakerIndex(expand->inputs[1]);
    if (shape < 0 || !rewrite_.node(shape).Is("Shape")) return false;
    const int like = rewrite_.node(shape).inputs[0];
    const ir::Node* const flat = match_.Maker(indices, "Reshape");
    return IsList(like) && (like == indices || (flat != nullptr && flat->inputs[0] == like));
  }

  const Rewriter& rewrite_;
  const ir::Graph& graph_;
  const Matcher& match_;
};

}  // namespace

void FuseEmbeddingBags(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kEmbeddingBag);
  const BagMatch bags(rewrite);
  for (int n = 0; n < rewrite.node_count(); ++n) {
    if (rewrite.node(n).Is("SegmentReduce", ops::kFusedDomain)) bags.Fuse(n);
  }
}

}  // namespace cudaep::graph
