#include "graph/pass/heads_match.h"

#include "graph/ir/elements.h"

namespace cudaep::graph {

bool HoldsHeadsApart(const ir::Graph& graph, int apart, int flat) {
  const auto &four = graph.value(apart).dims, &three = graph.value(flat).dims;
  if (!four || !three || four->size() != 4 || three->size() != 3) return false;
  const ir::Element all = ir::ElementOf((*three)[0]);
  return all.known && Times(ir::ElementOf((*four)[0]), ir::ElementOf((*four)[1])) == all &&
         (*four)[2].Equals((*three)[1]) && (*four)[3].Equals((*three)[2]);
}

bool HeadsMatch::IsTurn(const ir::Node& node) const {
  return node.Is("Transpose") && match_.IntsOf(node, "perm", node.inputs.size()) == std::vector<int64_t>{0, 2, 1, 3};
}

int HeadsMatch::MergedSource(int value) const {
  const ir::Node* const split = match_.Maker(value, "Reshape");
  if (split == nullptr) return -1;
  const auto &whole = graph_.value(split->inputs[0]).dims, &parts = graph_.value(value).dims;
  if (!whole || !parts || whole->size() != 3 || parts->size() != 4) return -1;
  const bool fits = (*whole)[0].Equals((*parts)[0]) && (*whole)[1].Equals((*parts)[1]) && (*parts)[2].known() &&
                    (*parts)[3].known() && (*whole)[2].size == (*parts)[2].size * (*parts)[3].size;
  return fits ? split->inputs[0] : -1;
}

int HeadsMatch::ApartSource(int flat) const {
  const ir::Node* const join = match_.Maker(flat, "Reshape");
  return join != nullptr && HoldsHeadsApart(graph_, join->inputs[0], flat) ? join->inputs[0] : -1;
}

int HeadsMatch::MergeOf(int value, const ir::Dim& batch, const ir::Dim& rows, int64_t columns) const {
  const int turn = match_.OnlyReader(value);
  if (turn < 0 || !IsTurn(graph_.nodes[static_cast<size_t>(turn)])) return -1;
  const int merge = match_.OnlyReader(graph_.nodes[static_cast<size_t>(turn)].outputs[0]);
  if (merge < 0 || !graph_.nodes[static_cast<size_t>(merge)].Is("Reshape")) return -1;
  const auto& whole = graph_.value(graph_.nodes[static_cast<size_t>(merge)].outputs[0]).dims;
  const bool fits = whole && whole->size() == 3 && (*whole)[0].Equals(batch) && (*whole)[1].Equals(rows) &&
                    (*whole)[2].size == columns;
  return fits ? merge : -1;
}

}  // namespace cudaep::graph
