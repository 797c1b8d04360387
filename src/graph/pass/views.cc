#include "graph/pass/views.h"

#include <algorithm>
#include <tuple>

#include "graph/pass/layout.h"
#include "graph/pass/row_products.h"
#include "graph/pass/strided_view.h"

namespace cudaep::graph {
namespace {

// What a chain of nodes costs: copies, parts taken of what was reshaped or turned before, nodes.
using Cost = std::tuple<int, bool, size_t>;

class Composer {
 public:
  explicit Composer(const Rewriter& rewrite) : rewrite_(rewrite), graph_(rewrite.graph), match_(rewrite.match) {}

  void Compose(int index) const {
    const ir::Node& node = rewrite_.node(index);
    if (!IsView(node) || node.outputs.size() != 1 || !IsNeeded(node.outputs[0])) return;
    std::vector<int> chain = {index};
    for (int value = node.inputs[0]; IsPassedThrough(value); value = rewrite_.node(chain.back()).inputs[0]) {
      chain.push_back(match_.MakerIndex(value));
    }
    std::ranges::reverse(chain);
    const std::optional<StridedView> view = ViewOf(chain);
    if (!view) return;
    const Cost before = CostOf(chain, view->is_part());
    if (Cost{view->copies(), false, 0} >= before) return;
    const bool is_root = view->copies() == 0 && graph_.SameDims(view->root(), node.outputs[0]);
    if (is_root && graph_.value(node.outputs[0]).output < 0) return rewrite_.Bypass(index, view->root());
    if (is_root || std::get<0>(before) == 0) return;
    auto nodes = NodesOf(rewrite_.graph, *view, node.outputs[0]);
    if (!nodes || Cost{view->copies(), false, nodes->size()} >= before) return;
    ir::Node last = std::move(nodes->back());
    nodes->pop_back();
    rewrite_.Replace(index, std::move(last), *std::move(nodes));
  }

 private:
  bool IsView(const ir::Node& node) const { return IsViewNode(graph_, match_, node); }

  // Whether somebody reads the elements as they lie there.
  bool IsNeeded(int value) const {
    return graph_.value(value).output >= 0 ||
           std::ranges::any_of(match_.uses().readers(value), [&](const ir::Uses::Use& use) {
             const ir::Node& reader = rewrite_.node(use.node);
             return !reader.on_host && !IsView(reader);
           });
  }
  bool IsPassedThrough(int value) const {
    const ir::Node* const maker = match_.Maker(value);
    return maker != nullptr && IsView(*maker) && !IsNeeded(value);
  }

  // Of the last nodes of the chain: those that stay are taken away.
  std::optional<StridedView> ViewOf(std::vector<int>& chain) const {
    std::optional<StridedView> view;
    size_t begin = 0;
    for (size_t i = 0; i < chain.size(); ++i) {
      const ir::Node& node = rewrite_.node(chain[i]);
      if (!view) view = StridedView::Whole(graph_, node.inputs[0]);
      const int output = i + 1 < chain.size() ? rewrite_.node(chain[i + 1]).inputs[0] : node.outputs[0];
      if (view && view->Apply(graph_, match_, node, output)) continue;
      view.reset();
      begin = i + 1;
    }
    chain.erase(chain.begin(), chain.begin() + static_cast<std::ptrdiff_t>(begin));
    return view;
  }

  // What goes with the chain: not what others read as well, unless each reads a part of it.
  Cost CostOf(const std::vector<int>& chain, bool is_part) const {
    int copies = 0;
    bool late = false;
    size_t begin = 0;
    for (size_t i = 0; i < chain.size(); ++i) {
      const ir::Node& node = rewrite_.node(chain[i]);
      if (i > 0 && !is_part && !match_.IsPrivate(node.inputs[0])) copies = 0, late = false, begin = i;
      copies += Copies(node) ? 1 : 0;
      late = late || (i > 0 && Copies(node) && !node.Is("Transpose"));
    }
    return {copies, late, chain.size() - begin};
  }

  const Rewriter& rewrite_;
  const ir::Graph& graph_;
  const Matcher& match_;
};

// One position of an axis by its number is a part, which may lie together in what it is taken of (ops::Plan::parts).
// Not where the axis goes and the result leaves: that would be copied twice.
void TakePosition(const Rewriter& rewrite, int index) {
  ir::Graph& graph = rewrite.graph;
  const ir::Node& node = rewrite.node(index);
  if (!node.Is("Gather") || node.on_host) return;
  const ir::Value data = graph.value(node.inputs[0]);  // copied: values are added
  const auto position = PositionTakenBy(graph, rewrite.match, node);
  if (data.is_constant() || !position) return;
  const auto [axis, size, first, drops_axis] = *position;
  if (drops_axis && graph.value(node.outputs[0]).output >= 0) return;
  // Beyond the end Gather gives zeros, and Slice takes nothing: of an axis of unknown size that is an error where it
  // goes.
  if (!position->is_there() && (size >= 0 || first != 0 || !drops_axis)) return;
  const auto ints = [&](int64_t value) { return AddInts(graph, data.name, {value}); };
  ir::Node part = rewrite.Instead(index, "", "Slice", 13);
  part.inputs = {node.inputs[0], ints(first), ints(first == -1 ? INT64_MAX : first + 1), ints(axis)};
  if (!drops_axis) {
    rewrite.Replace(index, std::move(part));
    return;
  }
  std::vector<ir::Dim> dims = *data.dims;
  dims[static_cast<size_t>(axis)] = {.size = 1};
  part.outputs = {graph.AddValue({.name = data.name, .type = data.type, .dims = std::move(dims)})};
  ir::Node apart = rewrite.Instead(index, "", "Squeeze", 13);
  apart.inputs = {part.outputs[0], ints(axis)};
  rewrite.Replace(index, std::move(apart), {std::move(part)});
}

}  // namespace

void ComposeViews(ir::Graph& graph, const PassContext& context) {
  TurnProductsOfRows(graph, context);
  const Rewriter rewrite(graph, context, Fusion::kViews);
  const Composer composer(rewrite);
  for (int n = 0; n < rewrite.node_count(); ++n) composer.Compose(n);
  rewrite.PlaceNodesInFront();
  RemoveDeadNodes(graph);
  const Rewriter positions(graph, context, Fusion::kViews);
  for (int n = 0; n < positions.node_count(); ++n) TakePosition(positions, n);
  positions.PlaceNodesInFront();
}

}  // namespace cudaep::graph
