// A host graph read into the description that placement works on, with the operator's answer for every node.
#pragma once

#include <string>
#include <vector>

#include "abi/host.h"
#include "graph/placement.h"
#include "runtime/settings.h"

namespace cudaep::abi {

struct GraphView {
  struct NodeFacts {
    const OrtNode* node = nullptr;
    std::string label;        // "Add node 'x'"
    std::string reason = {};  // why the provider has no kernel for it; empty when it has one
    bool taken = false;       // by another provider already
  };
  graph::PlacementGraph placement;
  std::vector<NodeFacts> nodes;  // same order as placement.nodes
};

Result<GraphView> ReadGraph(const OrtGraph* graph, OrtEpGraphSupportInfo* support, const Settings& settings,
                            const std::string& ep_name);

}  // namespace cudaep::abi
