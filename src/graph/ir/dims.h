// Dimensions that follow from those of a region's inputs.
#pragma once

#include "graph/ir/elements.h"

namespace cudaep::graph::ir {

// Fills in what nodes say of their outputs' dimensions: hosts lose them at the first Reshape whose target is computed.
// Small tensors of integers are followed too, element by element, so that such a target is read as the dimensions it
// was made of. What cannot be told gets a symbol of its own where the rank is known: it is the same as itself. Once for
// a graph: symbols of another time are not these. Returned are the elements that were followed, of each value.
using KnownElements = std::vector<std::optional<Elements>>;
KnownElements StateDims(Graph& graph);

}  // namespace cudaep::graph::ir
