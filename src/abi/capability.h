// Which nodes of a graph the provider takes, and why not the others.
//
// What the host does with an error from GetCapability is to log it and run every node elsewhere, so an error that must
// end session creation takes another way: a node is claimed for compilation, and Compile, whose errors do end it,
// returns the refusal.
// Threads: the host partitions the graphs of a session on one thread.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "abi/budget_claims.h"
#include "abi/host.h"
#include "abi/region_claims.h"
#include "abi/segment_loops.h"
#include "abi/session_state.h"
#include "graph/placement_report.h"

namespace cudaep::abi {

class Capability {
 public:
  // `budget`: absent where the session has none.
  explicit Capability(std::optional<graph::BudgetSetting> budget) {
    if (budget) budget_.emplace(std::move(*budget));
  }

  // Claims nodes in `support`, one by one or joined to regions, and reports the others with reasons: in the log, all at
  // level info and those that we refuse as a warning, and in the file that the option placement_report names. Under
  // require_all_compute_nodes, a compute node that is not ours is a refusal. Nodes beyond the budget are left to
  // others.
  Status Claim(const OrtGraph* graph, OrtEpGraphSupportInfo* support, SessionState& state, const std::string& ep_name,
               const OrtLogger* logger);

  // Whether nodes of an ONNX operator may become channels-last ones: there are rows for them, and types that the host
  // knows for such in all graphs seen so far.
  bool MayTurnChannelsLast(std::string_view op) const;

  // Why session creation must end; what Compile returns.
  const Status& refusal() const { return refusal_; }

  const RegionClaims& regions() const { return regions_; }
  // Completes the file that placement_report names by what became of regions, each with the first output of one of its
  // nodes.
  using Compiled = std::pair<std::string, graph::RegionReport>;
  Status Report(const std::vector<Compiled>& regions, const SessionState& state, const std::string& ep_name);

 private:
  Status ClaimFrom(const OrtGraph* graph, OrtEpGraphSupportInfo* support, SessionState& state,
                   const std::string& ep_name, const OrtLogger* logger, const OrtNode** carrier);
  bool MayCompile(const Settings& settings, const GraphView& view) const;
  void ClaimSegmentLoops(const Settings& settings, GraphView* view);
  std::vector<RegionClaims::Region> FindRegions(const Settings& settings, const std::vector<bool>& shape_nodes,
                                                GraphView* view);
  void WarnOf(const graph::GraphReport& main, const std::string& ep_name, const OrtLogger* logger);
  Status CheckAllComputeNodes(const graph::GraphReport& main, const std::string& ep_name) const;
  Status WriteReport(const Settings& settings, const std::string& ep_name) const;
  Status ApplyBudget(const OrtGraph* graph, SessionState& state, GraphView* view, const std::string& ep_name,
                     const OrtLogger* logger);

  graph::PlacementReport report_;
  std::optional<BudgetClaims> budget_;
  RegionClaims regions_;
  SegmentLoops segment_loops_;
  std::set<std::string, std::less<>> channels_first_only_;
  Status refusal_;
  std::vector<std::string> warned_;  // the last warnings,
  std::string budget_note_;          // and the last one about the budget
};

}  // namespace cudaep::abi
