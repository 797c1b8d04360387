// What GetCapability decided about every node of a session, for people and for tools.
//
// One report a session. The host asks once for each graph (the main graph and those inside control-flow nodes), and may
// ask twice for the same one before it settles: the last answer counts.
// A *compute node* is any node that is not a shape node (graph/placement.h).
// Threads: none of its own; the host partitions a session's graphs on one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "graph/budget.h"
#include "graph/region_report.h"
#include "lib/report.h"

namespace cudaep::graph {

enum class NodeHome : uint8_t {
  kOurs,         // a kernel of the provider
  kShapeNode,    // computes shapes only: left to the CPU
  kEvaluated,    // the same in a compiled region, which evaluates it once for each set of input dimensions
  kOtherTaken,   // another provider had taken the node before; `reason` names it
  kUnsupported,  // no kernel of ours; `reason` says why
  kOverBudget,   // a kernel of ours, but beyond the session's memory budget; `reason` has the figures
};

struct NodeReport {
  std::string name;          // may be empty
  std::string first_output;  // tells nodes without a name apart
  std::string op_type;
  std::string domain;
  int since_version = 0;
  NodeHome home = NodeHome::kOurs;
  std::string reason = {};       // why the node is not ours; empty for kOurs and shape nodes
  std::optional<NodeCost> cost;  // stated where the session has a memory budget
  int region = -1;               // number of the compiled region that has the node; -1: none
  bool is_region = false;        // the node is one, compiled after an earlier answer
};

// A value that the host copies to the other memory; nodes by their index, the producer -1 for an input of the graph.
struct CopyReport {
  bool to_device = false;
  std::string value;
  int producer = -1;
  std::vector<int> readers;
};

struct GraphReport {
  std::string name;
  std::string parent;  // the control-flow node that holds the graph, as Label() writes it; empty for the main graph
  std::vector<std::string> outputs;  // of the graph, in its order
  std::vector<NodeReport> nodes;
  std::vector<CopyReport> copies = {};
};

// The same for two answers about one graph. The host may replace and reorder a graph's nodes between them, but keeps
// its name, outputs and parent. The two branches of an If may share name and parent, so outputs count.
std::string IdentityOf(const GraphReport& graph);

// "Add node 'x'", or "Add node with output 'y'" where the node has no name.
std::string Label(const NodeReport& node);

// Counts by home, and one line for each node that is not ours, for the log.
std::string Summary(const GraphReport& graph);

// What a user should hear without asking: nodes that we refused, the first 20 with their reasons. Where no other
// provider has a kernel either, the host ends the session with an error of its own that gives no reason. Calls of the
// model's own functions are left out, since their nodes come later. Empty when there is none.
std::string Warning(const GraphReport& graph);

// OK when all compute nodes are ours; otherwise kNotSupported naming the first 20 others with their reasons.
Status CheckAllComputeNodes(const GraphReport& graph, std::string_view provider);

// OK when all nodes of operators that no other provider can run are ours; otherwise kNotSupported with the reasons.
Status CheckOwnOperators(const GraphReport& graph);

// How many nodes have which home.
struct NodeCount {
  size_t all = 0;
  size_t ours = 0;
  size_t elsewhere = 0;  // compute nodes that are not ours
};

class PlacementReport {
 public:
  // The graphs inside nodes of `main`, at any depth, in the order of their first answer. Others are of nodes that the
  // host has replaced since.
  std::vector<const GraphReport*> Within(const GraphReport& main) const;
  // Adds a graph, in place of an earlier answer about the same one, from which nodes come that are a region by now.
  void Add(GraphReport graph);

  // The nodes of the graphs inside a control-flow node, given as Label() writes it. The host asks for these graphs
  // before it asks for the one that the node is in.
  NodeCount Inside(std::string_view node) const;

  // Takes away the graphs inside a node that runs as an operator.
  void ForgetInside(std::string_view node);
  // What nearly became part of a region.
  void SetMissed(std::vector<FusionNote> missed) { missed_ = std::move(missed); }

  // Numbers for regions that are claimed next.
  int AddRegions(size_t count);
  // What became of the region that has the node with this first output.
  void SetRegion(std::string_view first_output, RegionReport region);

  // Of the session, in place of an earlier one.
  void SetBudget(BudgetReport budget) { budget_ = std::move(budget); }

  // A JSON object: format (1), provider, version, backend, libraries[], graphs[] in the order of their first answer,
  // each with nodes[] of name, op_type, domain, since_version, placement ("provider", "shape", "evaluated", "other",
  // "unsupported", "budget"), region and reason, and copies[]; regions[] of number, steps[], rewritten[] and missed[];
  // missed[] outside of regions. With a memory budget also budget{} and each stated cost{}.
  std::string ToJson(std::string_view provider, std::string_view backend,
                     std::span<const lib::LibraryReport> libraries) const;

 private:
  const NodeReport* FindNode(std::string_view first_output) const;
  void ShowMembers(GraphReport& graph) const;

  std::vector<GraphReport> graphs_;
  std::vector<RegionReport> regions_;  // by number
  std::vector<FusionNote> missed_;
  std::optional<BudgetReport> budget_;
};

// Replaces the file; kInvalidArgument naming the path and the system's reason when it cannot be written.
Status WriteReport(const std::string& path, std::string_view text);

}  // namespace cudaep::graph
