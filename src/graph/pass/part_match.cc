#include "graph/pass/part_match.h"

#include <algorithm>

namespace cudaep::graph {
namespace {

// What a Slice of this step takes of rows of `part.size` elements, the last included or not.
std::optional<RowPart> SlicedPart(const Matcher& match, const ir::Node& slice, size_t rank, int64_t step,
                                  RowPart part) {
  const auto one = [](const std::optional<std::vector<int64_t>>& ints) { return ints && ints->size() == 1; };
  const auto starts = match.IntsOf(slice, "starts", 1), ends = match.IntsOf(slice, "ends", 2);
  const auto axes = match.IntsOf(slice, "axes", 3), steps = match.IntsOf(slice, "steps", 4);
  if (!one(starts) || !one(ends) || !one(axes) || !IsLastAxis(axes->front(), rank)) return std::nullopt;
  const bool has_steps = slice.inputs.size() > 4 && slice.inputs[4] >= 0;
  if (has_steps ? steps != std::vector{step} : step != 1) return std::nullopt;
  const auto clamped = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + part.size : at, 0, part.size); };
  part.begin = clamped(starts->front());
  part.end = std::max(clamped(ends->front()), part.begin);
  return part;
}

std::optional<RowPart> SplitPart(const ir::Graph& graph, const ir::Node& split, size_t rank, int value, RowPart part) {
  if (!IsLastAxis(IntAttribute(split, "axis", 0), rank)) return std::nullopt;
  for (const int output : split.outputs) {
    if (output < 0 || !graph.value(output).dims || !graph.value(output).dims->back().known()) return std::nullopt;
    part.begin = part.end;
    part.end += graph.value(output).dims->back().size;
    if (output == value) return part;
  }
  return std::nullopt;
}

// All of the rows that a node takes parts of, where their size is known.
std::optional<RowPart> WholeOf(const ir::Graph& graph, const ir::Node& node) {
  const auto& dims = graph.value(node.inputs[0]).dims;
  if (!dims || dims->empty() || !dims->back().known()) return std::nullopt;
  return RowPart{.whole = node.inputs[0], .size = dims->back().size};
}

}  // namespace

std::optional<RowPart> MatchRowPart(const ir::Graph& graph, const Matcher& match, int value) {
  const ir::Node* const maker = match.Maker(value);
  if (maker == nullptr || !(maker->Is("Slice") || maker->Is("Split"))) return std::nullopt;
  const auto part = WholeOf(graph, *maker);
  if (!part) return std::nullopt;
  const size_t rank = graph.value(part->whole).dims->size();
  return maker->Is("Slice") ? SlicedPart(match, *maker, rank, 1, *part) : SplitPart(graph, *maker, rank, value, *part);
}

std::optional<EveryOther> MatchEveryOther(const ir::Graph& graph, const Matcher& match, int value) {
  const ir::Node* const slice = match.Maker(value, "Slice");
  const auto whole = slice == nullptr ? std::nullopt : WholeOf(graph, *slice);
  if (!whole || whole->size % 2 != 0) return std::nullopt;
  const auto part = SlicedPart(match, *slice, graph.value(whole->whole).dims->size(), 2, *whole);
  if (!part || part->begin > 1 || part->end != part->size) return std::nullopt;
  return EveryOther{.whole = part->whole, .is_second = part->begin == 1};
}

}  // namespace cudaep::graph
