#include "graph/pass/roll_match.h"

#include <algorithm>

#include "graph/pass/strided_view.h"

namespace cudaep::graph {
namespace {

struct Part {
  int whole = -1;
  int64_t begin = 0, end = 0;  // along the axis
};

// The part of another tensor along the axis, as Slice or Split gives it.
std::optional<Part> PartOf(const ir::Graph& graph, const Matcher& match, int value, size_t axis) {
  const ir::Node* const maker = match.Maker(value);
  if (maker == nullptr || !(maker->Is("Slice") || maker->Is("Split")) || !IsViewNode(graph, match, *maker)) {
    return std::nullopt;
  }
  auto view = StridedView::Whole(graph, maker->inputs[0]);
  if (!view || !view->Apply(graph, match, *maker, value)) return std::nullopt;
  for (size_t i = 0; i < view->axes().size(); ++i) {
    if ((view->axes()[i].end >= 0) != (i == axis)) return std::nullopt;
  }
  if (axis >= view->axes().size()) return std::nullopt;
  return Part{maker->inputs[0], view->axes()[axis].begin, view->axes()[axis].end};
}

struct Step {
  int whole = -1;
  size_t axis = 0;
  int64_t shift = 0, size = 0;
};

std::optional<Step> StepOf(const ir::Graph& graph, const Matcher& match, const ir::Node& concat) {
  if (concat.on_host || !concat.Is("Concat") || concat.inputs.size() != 2) return std::nullopt;
  const auto& dims = graph.value(concat.outputs[0]).dims;
  const auto rank = dims ? static_cast<int64_t>(dims->size()) : 0;
  const int64_t axis = IntAttribute(concat, "axis", 0), at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank) return std::nullopt;
  const auto first = PartOf(graph, match, concat.inputs[0], static_cast<size_t>(at));
  const auto second = PartOf(graph, match, concat.inputs[1], static_cast<size_t>(at));
  if (!first || !second || first->whole != second->whole) return std::nullopt;
  const ir::Dim& size = graph.value(first->whole).dims->at(static_cast<size_t>(at));
  if (second->begin != 0 || second->end != first->begin || first->end != size.size) return std::nullopt;
  return Step{first->whole, static_cast<size_t>(at), first->begin, size.size};
}

}  // namespace

std::optional<RollMatch> MatchRoll(const ir::Graph& graph, const Matcher& match, const ir::Node& concat) {
  auto step = StepOf(graph, match, concat);
  if (!step) return std::nullopt;
  RollMatch roll{.root = concat.outputs[0], .first = -1, .result = concat.outputs[0]};
  roll.shifts.resize(graph.value(roll.root).dims->size());
  while (step) {
    int64_t& shift = roll.shifts[step->axis];
    shift = (shift + step->shift) % step->size;
    roll.first = roll.root;
    roll.root = step->whole;
    const ir::Node* const maker = match.Maker(roll.root, "Concat");
    // What others read in between is made anyway.
    step = maker != nullptr && IsReadByRoll(graph, match, roll.root, roll.first) ? StepOf(graph, match, *maker)
                                                                                 : std::nullopt;
  }
  return roll;
}

bool IsReadByRoll(const ir::Graph& graph, const Matcher& match, int value, int result) {
  if (graph.value(value).output >= 0) return false;
  const ir::Node& concat = *match.Maker(result);
  return std::ranges::all_of(match.uses().readers(value), [&](const ir::Uses::Use& use) {
    const ir::Node& reader = graph.nodes[static_cast<size_t>(use.node)];
    return reader.on_host || std::ranges::all_of(reader.outputs, [&](int part) {
             const int by = match.OnlyReader(part);
             return by >= 0 && graph.nodes[static_cast<size_t>(by)].outputs == concat.outputs;
           });
  });
}

}  // namespace cudaep::graph
