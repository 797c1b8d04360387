// A host graph read into the description that placement works on, with the operator's answer for every node.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "abi/host.h"
#include "graph/placement.h"
#include "graph/placement_report.h"
#include "runtime/settings.h"

namespace cudaep::abi {

// What a compiled region could do with a node.
struct RegionFacts {
  bool is_region = false;        // it is one, compiled before
  bool on_device = false;        // run it: an operator of ours on tensors, whose shapes follow from those of its inputs
  bool on_host = false;          // evaluate it: shape arithmetic
  bool reads_dims_only = false;  // Shape, Size
  std::vector<int> read_inside;  // values that graphs inside it read
};

struct GraphView {
  graph::PlacementGraph placement;
  std::vector<const OrtNode*> nodes;  // same order as placement.nodes
  std::vector<bool> assigned;         // to us, by an earlier answer about the same graph
  std::vector<RegionFacts> regions;   // same order; nothing without compiled_regions
  // The same nodes for reports. A home is kOurs where a kernel of ours takes the node; shape nodes are not yet told
  // apart, but for control flow around nothing else.
  graph::GraphReport report;
  // Operators with a claimed node that the host must not turn channels-last; empty without prefer_nhwc.
  std::set<std::string, std::less<>> channels_first_only;
};

// `earlier` has what was decided about the graphs inside control-flow nodes of this one.
Result<GraphView> ReadGraph(const OrtGraph* graph, OrtEpGraphSupportInfo* support, const Settings& settings,
                            const std::string& ep_name, const graph::PlacementReport& earlier);

}  // namespace cudaep::abi
