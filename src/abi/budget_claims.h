// Which of the nodes that we could take fit into the session's memory budget.
//
// Threads: the host partitions the graphs of a session on one thread. Free memory is asked for once, at the first
// graph.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "abi/graph_view.h"
#include "abi/node_demand.h"
#include "abi/session_state.h"
#include "graph/budget.h"

namespace cudaep::abi {

// What a budget without a limit of its own comes to: free memory of the session's GPU, within the provider's limit.
Result<uint64_t> AvailableBytes(const SessionState& state);

class BudgetClaims {
 public:
  explicit BudgetClaims(graph::BudgetSetting setting) : setting_(std::move(setting)) {}

  // States the cost of the nodes of `view` whose home is kOurs and makes those kOverBudget that are beyond the budget.
  // `note` is set to what is worth a line in the log: where the budget ended, once, and costs that are unknown.
  Status Apply(const OrtGraph* graph, SessionState& state, const MayTurn& may_turn, GraphView* view, std::string* note);

  // Nodes of the view of the last Apply that become a region: an answer that finds it in their place, because the host
  // asks again, charges what they use.
  void Join(const GraphView& view, std::span<const int> nodes);

  // Of all graphs so far.
  graph::BudgetReport Report() const;

 private:
  Status Prepare(const OrtGraph* graph, SessionState& state);
  Status Charge(SessionState& state, const MayTurn& may_turn, StreamContext& stream, GraphView* view);
  std::span<const NodeUse> MembersOf(const GraphView& view, size_t region) const;

  graph::BudgetSetting setting_;
  graph::NodeStats stats_;
  std::optional<graph::BudgetAccount> account_;
  std::string ended_at_;       // the node that did not fit
  std::vector<NodeUse> uses_;  // of the last graph's nodes, as far as they were read
  std::map<std::string, std::shared_ptr<const std::vector<NodeUse>>> members_;  // of regions, by what these make
};

}  // namespace cudaep::abi
