// What need not be made: arithmetic that comes to numbers before anything runs, and what is there already.
#pragma once

#include "graph/ir/dims.h"
#include "graph/pass/pass.h"

namespace cudaep::graph {

// Makes constants of small tensors whose elements are known: sizes that the model states, as `known` has them of this
// graph, and what operators of shape arithmetic make of constants alone, as in 1 / sqrt(head size). 16-bit floats are
// computed in fp32 and rounded after each operator, as kernels do.
//
// Nodes that give their input go. A size that is asked of a value is read from the region's inputs, by new nodes in
// front of all others, where it follows from theirs.
void FoldKnown(ir::Graph& graph, const ir::KnownSizes& known, const Settings& settings);

}  // namespace cudaep::graph
