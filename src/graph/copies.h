// Values that the host copies between its memory and the device's, as far as claims tell: its own transformer runs
// after them, and a graph with compiled regions is not saved.
//
// Pure.
#pragma once

#include <vector>

#include "graph/placement.h"
#include "graph/placement_report.h"

namespace cudaep::graph {

// In the order of the values. A graph's input is one only where it is read in both memories: the host puts others where
// they are read when it takes them. Values of graphs around an inner one are left out.
std::vector<CopyReport> FindCopies(const PlacementGraph& graph, const GraphReport& report);

}  // namespace cudaep::graph
