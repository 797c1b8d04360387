// Whether Runs of a graph can be captured into a CUDA graph as it is placed: what a replay repeats is the provider's
// work on the device and nothing else.
//
// So no node may make the host run graphs (control flow), no value may be copied between host and device from node to
// node, and no value that is read in host memory may come from an input of the graph: replays read the addresses of
// inputs, and nobody reads their contents on the host again. Nodes on the CPU then depend on shapes and constants
// alone. Whether an operator's own work can be captured is known at its first Run.
// A pure function over the description that placement works on.
#pragma once

#include "core/status.h"
#include "graph/placement.h"
#include "graph/placement_report.h"

namespace cudaep::graph {

// kNotSupported naming the first node in the way, the value and the reason. `report` has the same nodes with the homes
// that were decided.
Status CheckCapturable(const PlacementGraph& graph, const GraphReport& report);

}  // namespace cudaep::graph
