// Nodes whose results are the same in every Run with the same dimensions of the region's inputs.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// Marks the nodes on the device that read nothing but constants, shape arithmetic and each other (ir::Node::once), as
// those of masks, positions and tables of cosines do. Not those whose results leave the region, which the caller's
// memory gets in every Run, nor operators that are not pure (ops::KernelRow). To be run last: passes that come after
// would have to mark what they make.
void MarkOnce(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
