// Dimensions of a region's inputs that have one name in the model. Passes take them to be the same; the host lets any
// be fed.
#pragma once

#include <string>
#include <vector>

#include "graph/exec/program.h"
#include "graph/ir/graph.h"
#include "ops/operator.h"

namespace cudaep::graph {

std::vector<StatedDim> StatedDimsOf(const ir::Graph& graph);

// With what two of them that are not the same have to do with an error of the region, where there are two.
Status ExplainByDims(Status error, const Program& program, ops::TensorViews inputs);

}  // namespace cudaep::graph
