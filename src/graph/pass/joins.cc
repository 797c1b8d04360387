#include "graph/pass/joins.h"

#include <algorithm>

#include "graph/pass/phases.h"
#include "graph/pass/rewrite.h"
#include "graph/pass/roll_match.h"
#include "graph/pass/strided_view.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

using Numbers = std::vector<int64_t>;

// Sizes, of which one may not be stated: -1. Nothing with more of those.
std::optional<Numbers> SizesOf(const std::vector<ir::Dim>& dims) {
  Numbers sizes;
  for (const ir::Dim& dim : dims) sizes.push_back(dim.known() ? dim.size : -1);
  return std::ranges::count(sizes, -1) > 1 ? std::nullopt : std::optional(sizes);
}

// A view as what its root is reshaped to, and the order in which that is read.
struct Turned {
  std::vector<ir::Dim> dims;
  Numbers perm;
};

Turned TurnedOf(const StridedView& view) {
  Turned turned;
  std::vector<int> atoms;
  for (const std::vector<int>& axis : view.axes_atoms()) atoms.insert(atoms.end(), axis.begin(), axis.end());
  for (const int atom : atoms) turned.dims.push_back(view.DimOf({atom}));
  for (const int atom : view.Order()) turned.perm.push_back(std::ranges::find(atoms, atom) - atoms.begin());
  return turned;
}

class Roller {
 public:
  explicit Roller(const Rewriter& rewrite) : rewrite_(rewrite), graph_(rewrite.graph), match_(rewrite.match) {}

  void Roll(int index) const {
    const std::optional<RollMatch> roll = MatchRoll(graph_, match_, rewrite_.node(index));
    if (!roll || IsInBetween(roll->result)) return;
    const std::optional<StridedView> source = Before(roll->root, roll->first);
    int last = index;
    const std::optional<StridedView> target = Behind(roll->result, last);
    if (!source || !target) return;
    const std::vector<ir::Dim>& dims = *graph_.value(roll->root).dims;
    const Turned from = TurnedOf(*source), to = TurnedOf(*target);
    const auto source_dims = SizesOf(from.dims), rolled = SizesOf(dims), target_dims = SizesOf(to.dims),
               shape = SizesOf(*graph_.value(rewrite_.node(last).outputs[0]).dims);
    if (!source_dims || !rolled || !target_dims || !shape) {
      return rewrite_.Miss(index, "more than one dimension is not stated");
    }
    ir::Node fused = rewrite_.Instead(last, ops::kFusedDomain, "Roll", 1);
    fused.inputs = {source->root()};
    fused.attributes = {{"source_dims", *source_dims}, {"source_perm", from.perm}, {"dims", *rolled},
                        {"shifts", roll->shifts},      {"shape", *shape},          {"target_dims", *target_dims},
                        {"target_perm", to.perm}};
    rewrite_.Replace(last, std::move(fused));
  }

 private:
  // Whether the next axis' parts are all that is read: then that one's Concat makes all of it.
  bool IsInBetween(int result) const {
    for (const ir::Uses::Use& use : match_.uses().readers(result)) {
      const ir::Node& part = rewrite_.node(use.node);
      const int by = part.on_host || part.outputs.empty() ? -1 : match_.OnlyReader(part.outputs[0]);
      const auto next = by < 0 ? std::nullopt : MatchRoll(graph_, match_, rewrite_.node(by));
      if (next && IsReadByRoll(graph_, match_, result, next->result)) return true;
    }
    return false;
  }

  bool IsView(int index) const {
    return index >= 0 && !rewrite_.IsTaken(index) && rewrite_.node(index).outputs.size() == 1 &&
           IsViewNode(graph_, match_, rewrite_.node(index));
  }

  // What is moved round, of what it is another order of, as far as nobody else reads that.
  std::optional<StridedView> Before(int root, int first) const {
    std::vector<int> chain;
    for (int value = root; value == root ? IsReadByRoll(graph_, match_, root, first) : match_.IsPrivate(value);) {
      const int maker = match_.MakerIndex(value);
      if (!IsView(maker)) break;
      chain.push_back(maker);
      value = rewrite_.node(maker).inputs[0];
    }
    for (; !chain.empty(); chain.pop_back()) {
      auto view = StridedView::Whole(graph_, rewrite_.node(chain.back()).inputs[0]);
      const bool applies = view && std::all_of(chain.rbegin(), chain.rend(), [&](int n) {
                             return view->Apply(graph_, match_, rewrite_.node(n), rewrite_.node(n).outputs[0]);
                           });
      if (applies && !view->is_part()) return view;
    }
    return StridedView::Whole(graph_, root);
  }

  // What becomes of the result, as far as nobody else reads it: `last` is the node that makes it.
  std::optional<StridedView> Behind(int result, int& last) const {
    std::optional<StridedView> best = StridedView::Whole(graph_, result), view = best;
    for (int value = result, next = match_.OnlyReader(value); view && IsView(next); next = match_.OnlyReader(value)) {
      const ir::Node& node = rewrite_.node(next);
      if (node.inputs[0] != value) break;
      value = node.outputs[0];
      if (!view->Apply(graph_, match_, node, value)) break;
      if (!view->is_part()) best = view, last = next;
    }
    return best;
  }

  const Rewriter& rewrite_;
  const ir::Graph& graph_;
  const Matcher& match_;
};

}  // namespace

void JoinParts(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kJoins);
  const Roller roller(rewrite);
  for (int n = 0; n < rewrite.node_count(); ++n) {
    roller.Roll(n);
    JoinPhases(rewrite, n);
  }
  rewrite.PlaceNodesInFront();
}

}  // namespace cudaep::graph
