// Which nodes form compiled regions: groups that the host makes one node each.
//
// The host drops everything that was claimed when one group is not convex, and also when groups, each convex, wait for
// each other (a1 -> b1, b2 -> a2). So what is promised here is that the graph has no cycle once every group is one
// node; that no path leaves a group and comes back follows from it.
//
// How the groups are found:
//   1. Candidates (candidates.h). A shape node and its readers are *tied*: they are in one group or the node is in
//   none.
//   2. What ties and the graph's edges make a cycle of must be one group. Where such a cycle runs through a node that
//      can be in no group, ties of it are given up until none does (ties.h). What is left are *atoms*, without cycles.
//   3. Atoms get levels, which never fall along an edge and rise on each that leaves a candidate for another node.
//      Candidates of one level that edges join are a group. A path that leaves a group goes to a higher level and never
//      falls again, so no cycle of groups and nodes exists.
//   4. Groups that an edge joins, then those that read one value, become one where no other path runs between them
//      (quotient.h), until there is no such pair.
//   5. Groups that are too small are given up. Taking a node of an acyclic graph apart makes no cycle.
//
// Steps 2 and 4 search for paths. Their work is limited to a multiple of the graph's size: a graph that would take more
// gets smaller groups, never wrong ones.
//
// A pure function over a small description of the graph, so that it can be tested with tables.
#pragma once

#include <cstdint>
#include <vector>

namespace cudaep::graph {

// What a region may do with a node.
enum class RegionRole : uint8_t {
  kOutside,  // it stays what it is: another provider's, control flow, shapes that depend on data
  kDevice,   // an operator of ours that a region can run
  kShape,    // shape arithmetic that the host would run on the CPU and a region evaluates on the host
};

struct RegionUse {
  int value = -1;           // -1 for an absent optional input
  bool host_input = false;  // our kernel reads it in host memory
};

struct RegionNode {
  RegionRole role = RegionRole::kOutside;
  bool reads_dims_only = false;   // Shape, Size: nothing of the inputs but their dimensions
  std::vector<RegionUse> inputs;  // and what graphs inside the node read from outside
  std::vector<int> outputs;       // values, -1 for absent ones
};

struct RegionValue {
  int producer = -1;  // node, or -1 for inputs and constants of the graph
  bool constant = false;
  bool host_constant = false;  // a constant small enough to be read on the host
  bool leaves = false;         // an output of the graph, or read by graphs inside nodes
};

struct RegionGraph {
  std::vector<RegionNode> nodes;  // in topological order
  std::vector<RegionValue> values;
};

// Groups, each in the graph's order and with at least `least_device_nodes` nodes of kDevice, by their first nodes.
//   - A kDevice node is in one only if its host inputs are host constants or made by kShape nodes of the same group.
//   - A kShape node is in one only if nothing else reads its outputs: no other node, nobody outside; and if it reads
//     host constants and kShape nodes of the group alone, or dimensions. Nodes of the group may read its outputs as
//     data.
// The same graph always gives the same groups.
std::vector<std::vector<int>> FindRegions(const RegionGraph& graph, int least_device_nodes);

}  // namespace cudaep::graph
