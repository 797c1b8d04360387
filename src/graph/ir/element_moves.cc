#include "graph/ir/element_moves.h"

#include <array>

#include "graph/ir/attributes.h"
#include "ops/movement/slice_ranges.h"

namespace cudaep::graph::ir {
namespace {

// numpy's rule for a position in `size` elements; -1 outside.
int64_t Position(const Element& element, int64_t size) {
  if (!element.is_number()) return -1;
  const int64_t at = element.number < 0 ? element.number + size : element.number;
  return at >= 0 && at < size ? at : -1;
}

// The sizes of a tensor of one or two dimensions, with a first one of 1 in front of one; they say how many elements
// there are.
std::optional<std::array<int64_t, 2>> SizesOf(const Graph& graph, int value, size_t elements) {
  const auto& dims = graph.value(value).dims;
  if (!dims || dims->empty() || dims->size() > 2) return std::nullopt;
  // What was followed has as many elements as there are, though a dimension may not be stated.
  const auto count = static_cast<int64_t>(elements);
  if (dims->size() == 1) return std::array<int64_t, 2>{1, count};
  const auto [rows, columns] = std::array{(*dims)[0].size, (*dims)[1].size};
  if (rows <= 0 || columns <= 0 || rows > count || columns > count || rows * columns != count) return std::nullopt;
  return std::array{rows, columns};
}

}  // namespace

std::optional<Elements> GatheredElements(const Elements& data, const Elements& indices) {
  Elements elements;
  for (const Element& index : indices) {
    const int64_t at = Position(index, static_cast<int64_t>(data.size()));
    if (at < 0) return std::nullopt;
    elements.push_back(data[static_cast<size_t>(at)]);
  }
  return elements;
}

std::optional<Elements> SlicedElements(const Graph& graph, const Node& node, std::span<const Elements* const> inputs) {
  const auto one = [&](size_t i, int64_t fallback) -> std::optional<int64_t> {
    if (i >= inputs.size() || node.inputs[i] < 0) return fallback;
    if (inputs[i] == nullptr || inputs[i]->size() != 1 || !inputs[i]->front().is_number()) return std::nullopt;
    return inputs[i]->front().number;
  };
  const auto start = one(1, 0), end = one(2, 0), axis = one(3, 0), step = one(4, 1);
  const auto sizes = SizesOf(graph, node.inputs[0], inputs[0]->size());
  if (inputs.size() < 3 || !start || !end || !axis || !step || *step == 0 || !sizes) return std::nullopt;
  const auto rank = static_cast<int64_t>(graph.value(node.inputs[0]).dims->size());
  const int64_t at = *axis < 0 ? *axis + rank : *axis;
  if (at < 0 || at >= rank) return std::nullopt;
  const auto [rows, columns] = *sizes;
  const bool by_rows = rank == 2 && at == 0;
  Elements elements;
  if (by_rows) {
    const ops::SliceRange taken = ops::SliceRangeOf(rows, *start, *end, *step);
    for (int64_t i = 0; i < taken.count; ++i) {
      const auto from = inputs[0]->begin() + (taken.start + i * taken.step) * columns;
      elements.insert(elements.end(), from, from + columns);
    }
    return elements;
  }
  const ops::SliceRange taken = ops::SliceRangeOf(columns, *start, *end, *step);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < taken.count; ++i) {
      elements.push_back((*inputs[0])[static_cast<size_t>(row * columns + taken.start + i * taken.step)]);
    }
  }
  return elements;
}

std::optional<Elements> TransposedElements(const Graph& graph, const Node& node, const Elements& from) {
  const auto sizes = SizesOf(graph, node.inputs[0], from.size());
  const auto* const perm = FindAttribute<std::vector<int64_t>>(node, "perm");
  if (!sizes) return std::nullopt;
  const bool stays = graph.value(node.inputs[0]).dims->size() == 1 || (perm != nullptr && perm->front() == 0);
  if (stays) return from;
  const auto [rows, columns] = *sizes;
  Elements elements;
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = 0; row < rows; ++row) elements.push_back(from[static_cast<size_t>(row * columns + column)]);
  }
  return elements;
}

}  // namespace cudaep::graph::ir
