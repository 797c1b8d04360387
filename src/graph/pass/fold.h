// What need not be made: arithmetic that comes to numbers before anything runs, and what is there already.
#pragma once

#include "graph/ir/dims.h"
#include "graph/pass/pass.h"

namespace cudaep::graph {

// Makes constants of small tensors whose elements are known: sizes that the model states, as `known` has them of this
// graph, and what operators of shape arithmetic make of constants alone, as in 1 / sqrt(head size). 16-bit floats are
// computed in fp32 and rounded after each operator, as kernels do.
//
// Nodes that give their input go, what that is leaving in their place where it may, and rows of one that are added or
// multiplied with become vectors.
void FoldKnown(ir::Graph& graph, const ir::KnownElements& known, const Settings& settings);

}  // namespace cudaep::graph
