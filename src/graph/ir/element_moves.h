// Elements that shape arithmetic takes out of a tensor or puts in another order. Tensors of up to two dimensions.
//
// Pure. Nothing where it cannot be told which elements those are.
#pragma once

#include "graph/ir/elements.h"

namespace cudaep::graph::ir {

// Of Gather: `data` and `indices` of one dimension.
std::optional<Elements> GatheredElements(const Elements& data, const Elements& indices);
// Of Slice, along one axis.
std::optional<Elements> SlicedElements(const Graph& graph, const Node& node, std::span<const Elements* const> inputs);
std::optional<Elements> TransposedElements(const Graph& graph, const Node& node, const Elements& from);

}  // namespace cudaep::graph::ir
