#include "graph/pass/embedding.h"

#include <algorithm>

#include "graph/pass/rewrite.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

constexpr size_t kMostSummands = 3;

// Rows of a table; ids -1: the rows of all tokens in their order, or of the last ones of their dimensions.
struct Summand {
  int rows = -1, ids = -1;
};

// What is added up, and why that is no embedding, if it nearly is one.
struct Sum {
  std::vector<Summand> summands = {};
  bool has_lookup = false;
  const char* missed = nullptr;

  bool is_embedding() const { return has_lookup && missed == nullptr; }
};

class EmbeddingMatch {
 public:
  EmbeddingMatch(const Rewriter& rewrite, NodeRemoval& gone)
      : rewrite_(rewrite), graph_(rewrite.graph), match_(rewrite.match), gone_(gone) {}

  // Of a normalisation.
  void FuseNorm(int index) const {
    const ir::Node& norm = rewrite_.node(index);
    if (!NormalisesRows(norm)) return;
    const int total = norm.inputs[0];
    const Sum sum = SumOf(total);
    if (!sum.has_lookup) return;
    if (sum.missed != nullptr) return rewrite_.Miss(index, sum.missed);
    // Other readers of the sum may stand before the norm.
    const bool leaves = !match_.IsPrivate(total);
    const int at = leaves ? match_.MakerIndex(total) : index;
    for (size_t i = 1; i < norm.inputs.size(); ++i) {
      const int value = norm.inputs[i];
      if (value < 0) continue;
      if (!IsVectorOfLast(graph_, value, total) || graph_.value(value).type != graph_.value(total).type ||
          match_.MakerIndex(value) >= at) {
        return rewrite_.Miss(index, "scale and bias are not vectors of the tables' type");
      }
    }
    ir::Node fused = Made(index, sum);
    fused.inputs.resize(2 * kMostSummands, -1);
    fused.inputs.insert(fused.inputs.end(), norm.inputs.begin() + 1, norm.inputs.end());
    fused.attributes = {{"epsilon", FloatAttribute(norm, "epsilon", 1e-5f)},
                        {"rms", int64_t{norm.Is("LayerNormalization") ? 0 : 1}}};
    if (leaves) fused.outputs.push_back(total);
    if (rewrite_.Replace(at, std::move(fused)) && at != index) gone_.Mark(index);
  }

  // Of a sum that nothing normalises.
  void FuseSum(int index) const {
    const ir::Node& add = rewrite_.node(index);
    if (!add.Is("Add") || add.on_host || rewrite_.IsTaken(index) || gone_.IsMarked(index)) return;
    const Sum sum = SumOf(add.outputs[0]);
    if (sum.is_embedding() && sum.summands.size() > 1) rewrite_.Replace(index, Made(index, sum));
  }

 private:
  bool NormalisesRows(const ir::Node& node) const {
    const bool is_norm =
        node.Is("LayerNormalization") || node.Is("RMSNormalization") || node.Is("SimplifiedLayerNormalization");
    if (!is_norm || node.on_host || node.outputs.size() != 1 || node.inputs.size() < 2) return false;
    const auto& dims = graph_.value(node.inputs[0]).dims;
    if (!dims) return false;
    return IsLastAxis(IntAttribute(node, "axis", -1), dims->size());
  }

  Sum SumOf(int total) const {
    Sum sum;
    const ir::Value& value = graph_.value(total);
    const bool is_sum = match_.Maker(total, "Add") != nullptr || match_.Maker(total, "Gather") != nullptr;
    if (!is_sum || !value.dims || value.dims->empty() || !kFloatTypesNoDouble.Contains(value.type)) return sum;
    Collect(total, total, sum);
    if (sum.missed == nullptr && sum.summands.size() > kMostSummands) sum.missed = "it has more than three summands";
    return sum;
  }

  void Collect(int value, int total, Sum& sum) const {
    const bool is_own = value == total || match_.IsPrivate(value);
    const ir::Node* const add = match_.Maker(value, "Add");
    if (add != nullptr && is_own) {
      for (const int summand : add->inputs) Collect(summand, total, sum);
      return;
    }
    const ir::Node* const gather = match_.Maker(value, "Gather");
    if (gather != nullptr && IsLookup(*gather, total)) {
      if (!is_own) return Miss(sum, "a summand is read elsewhere too");
      sum.has_lookup = true;
      if (!Repeats(gather->inputs[1], 0, total)) return Miss(sum, "ids are not stated to repeat over all tokens");
      sum.summands.push_back({gather->inputs[0], gather->inputs[1]});
    } else if (!graph_.value(value).is_constant()) {
      Miss(sum, "a summand is neither rows of a table nor a constant");
    } else if (!IsOfWidth(value, total) || !Repeats(value, 1, total)) {
      Miss(sum, "a constant does not repeat over the tokens");
    } else {
      sum.summands.push_back({value, -1});
    }
  }

  static void Miss(Sum& sum, const char* why) {
    if (sum.missed == nullptr) sum.missed = why;
  }

  // Of rows as wide as the sum's, from a table of the sum's type.
  bool IsLookup(const ir::Node& gather, int total) const {
    const auto& table = graph_.value(gather.inputs[0]).dims;
    const int64_t axis = IntAttribute(gather, "axis", 0);
    const bool by_rows = table && table->size() == 2 && (axis == 0 || axis == -2);
    return by_rows && IsOfWidth(gather.inputs[0], total) &&
           graph_.value(gather.inputs[0]).type == graph_.value(total).type &&
           kIndexTypes.Contains(graph_.value(gather.inputs[1]).type);
  }

  bool IsOfWidth(int value, int total) const {
    const auto& dims = graph_.value(value).dims;
    return dims && !dims->empty() && dims->back().known() && dims->back().Equals(graph_.value(total).dims->back());
  }

  // Whether dimensions, without the last `inner`, are the last of the tokens', behind dimensions of 1. The first of
  // them may have another name, as that of places which are cut to the tokens' number: it is theirs or 1, or there is
  // no sum.
  bool Repeats(int value, size_t inner, int total) const {
    const auto& own = graph_.value(value).dims;
    const auto& all = *graph_.value(total).dims;
    if (!own || own->size() < inner) return false;
    auto tokens = std::span(all).first(all.size() - 1);
    auto left = std::span(*own).first(own->size() - inner);
    while (!left.empty() && left.front().size == 1) left = left.subspan(1);
    if (left.size() > tokens.size()) return false;
    tokens = tokens.last(left.size());
    const size_t named = !left.empty() && !left.front().known() ? 1 : 0;
    return std::ranges::equal(left.subspan(named), tokens.subspan(named),
                              [](const ir::Dim& one, const ir::Dim& other) { return one.Equals(other); });
  }

  ir::Node Made(int index, const Sum& sum) const {
    ir::Node fused = rewrite_.Instead(index, ops::kFusedDomain, "Embedding", 1);
    for (const Summand& summand : sum.summands) {
      fused.inputs.push_back(summand.rows);
      fused.inputs.push_back(summand.ids);
    }
    return fused;
  }

  const Rewriter& rewrite_;
  const ir::Graph& graph_;
  const Matcher& match_;
  NodeRemoval& gone_;
};

}  // namespace

void FuseEmbeddings(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kEmbedding);
  NodeRemoval gone(graph);
  const EmbeddingMatch match(rewrite, gone);
  for (int n = 0; n < rewrite.node_count(); ++n) match.FuseNorm(n);
  for (int n = rewrite.node_count(); n-- > 0;) match.FuseSum(n);  // the last of several sums has them all
  gone.Apply(graph);
}

}  // namespace cudaep::graph
