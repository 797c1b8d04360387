#include "graph/pass/part_match.h"

#include <algorithm>

namespace cudaep::graph {
namespace {

bool IsLastAxis(int64_t axis, size_t rank) { return axis == -1 || axis == static_cast<int64_t>(rank) - 1; }

std::optional<RowPart> SlicedPart(const Matcher& match, const ir::Node& slice, size_t rank, RowPart part) {
  const auto one = [](const std::optional<std::vector<int64_t>>& ints) { return ints && ints->size() == 1; };
  const auto starts = match.IntsOf(slice, "starts", 1), ends = match.IntsOf(slice, "ends", 2);
  const auto axes = match.IntsOf(slice, "axes", 3), steps = match.IntsOf(slice, "steps", 4);
  if (!one(starts) || !one(ends) || !one(axes) || !IsLastAxis(axes->front(), rank)) return std::nullopt;
  const bool has_steps = slice.inputs.size() > 4 && slice.inputs[4] >= 0;
  if (has_steps && steps != std::vector<int64_t>{1}) return std::nullopt;
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

}  // namespace

std::optional<RowPart> MatchRowPart(const ir::Graph& graph, const Matcher& match, int value) {
  const ir::Node* const maker = match.Maker(value);
  if (maker == nullptr || !(maker->Is("Slice") || maker->Is("Split"))) return std::nullopt;
  RowPart part{.whole = maker->inputs[0]};
  const auto& dims = graph.value(part.whole).dims;
  if (!dims || dims->empty() || !dims->back().known()) return std::nullopt;
  part.size = dims->back().size;
  return maker->Is("Slice") ? SlicedPart(match, *maker, dims->size(), part)
                            : SplitPart(graph, *maker, dims->size(), value, part);
}

}  // namespace cudaep::graph
