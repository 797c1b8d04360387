// A host graph read into the description that placement works on, with the operator's answer for every node.
#pragma once

#include <string>
#include <vector>

#include "abi/host.h"
#include "graph/placement.h"
#include "graph/placement_report.h"
#include "runtime/settings.h"

namespace cudaep::abi {

struct GraphView {
  graph::PlacementGraph placement;
  std::vector<const OrtNode*> nodes;  // same order as placement.nodes
  // The same nodes for reports. A home is kOurs where a kernel of ours takes the node; shape nodes are not yet told
  // apart.
  graph::GraphReport report;
};

Result<GraphView> ReadGraph(const OrtGraph* graph, OrtEpGraphSupportInfo* support, const Settings& settings,
                            const std::string& ep_name);

}  // namespace cudaep::abi
