#include "abi/budget_claims.h"

#include <algorithm>
#include <set>

#include "abi/session_budget.h"
#include "core/format_bytes.h"
#include "core/strings.h"
#include "runtime/own_stream.h"

namespace cudaep::abi {
namespace {

// Puts in what is not on the device yet.
graph::NodeDemand DemandOf(const NodeUse& use, const std::set<std::string>& on_device, const std::string& graph) {
  graph::NodeDemand demand = use.demand;
  for (const auto& input : use.device_inputs) {
    if (!on_device.contains(input.identity)) demand.copies.push_back({graph + '\n' + input.identity, input.bytes});
  }
  return demand;
}

// Transposes of ours that feed assigned nodes or follow them, and are not assigned themselves: the host put them there
// when it turned the nodes channels-last, and the nodes' cost had room for them. So they come before other nodes.
std::vector<bool> TransposesBesideAssigned(const GraphView& view) {
  const auto& nodes = view.placement.nodes;
  std::vector<bool> beside(nodes.size());
  const auto is_transpose = [&](size_t i) {
    const graph::NodeReport& report = view.report.nodes[i];
    return report.home == graph::NodeHome::kOurs && !view.assigned[i] && report.op_type == "Transpose" &&
           report.domain.empty();
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const graph::PlacementUse& use : nodes[i].inputs) {
      const int producer = use.value < 0 ? -1 : view.placement.values[static_cast<size_t>(use.value)].producer;
      if (producer < 0) continue;
      const auto before = static_cast<size_t>(producer);
      if (view.assigned[i] && is_transpose(before)) beside[before] = true;
      if (view.assigned[before] && is_transpose(i)) beside[i] = true;
    }
  }
  return beside;
}

}  // namespace

Result<uint64_t> AvailableBytes(const SessionState& state) {
  const device::DeviceGuard guard(state.ordinal());
  CUDAEP_RETURN_IF_ERROR(guard.status());
  size_t free = 0, total = 0;
  CUDAEP_RETURN_IF_ERROR(device::MemGetInfo(&free, &total));
  return std::min(free, state.memory()->budget().available_bytes());
}

Status BudgetClaims::Prepare(const OrtGraph* graph, SessionState& state) {
  if (account_) return Status::Ok();
  CUDAEP_ASSIGN_OR_RETURN(stats_, ReadNodeStats(graph, setting_.stats_file));
  uint64_t limit = 0;
  if (setting_.limit_bytes) {
    limit = *setting_.limit_bytes;
  } else {
    CUDAEP_ASSIGN_OR_RETURN(limit, AvailableBytes(state));
  }
  account_.emplace(limit, state.memory()->budget().limit_bytes() != 0, setting_.host_counts);
  return Status::Ok();
}

Status BudgetClaims::Apply(const OrtGraph* graph, SessionState& state, const MayTurn& may_turn, GraphView* view,
                           std::string* note) {
  note->clear();
  const device::DeviceGuard guard(state.ordinal());
  CUDAEP_RETURN_IF_ERROR(guard.status());
  CUDAEP_RETURN_IF_ERROR(Prepare(graph, state));
  account_->BeginGraph(graph::IdentityOf(view->report));
  if (!account_->ended()) ended_at_.clear();
  const bool had_ended = account_->ended();
  const size_t unknown_before = account_->unknown_nodes();
  CUDAEP_RETURN_IF_ERROR(
      OnOwnStream(state.memory(), [&](StreamContext& stream) { return Charge(state, may_turn, stream, view); }));
  if (account_->ended() && !had_ended) {
    *note = StrCat("the memory budget of ", FormatBytes(account_->limit_bytes()), " ends at ", ended_at_, ", with ",
                   FormatBytes(account_->stated_bytes()), " for ", account_->nodes(),
                   " nodes before it; it and what follows stay on the CPU");
  }
  if (account_->unknown_nodes() > unknown_before) {
    *note += StrCat(note->empty() ? "" : "\n", "the cost of ", account_->unknown_nodes() - unknown_before,
                    " nodes is known only in part, so the device may need more than the memory budget; provider option "
                    "budget_dynamic_dim says what open dimensions count as");
  }
  return Status::Ok();
}

Status BudgetClaims::Charge(SessionState& state, const MayTurn& may_turn, StreamContext& stream, GraphView* view) {
  NodeUseReader reader(state, may_turn, stats_, stream);
  const std::string identity = graph::IdentityOf(view->report);
  std::vector<graph::NodeReport>& reports = view->report.nodes;
  uses_.clear();
  const auto use_of = [&](size_t index) -> Result<const NodeUse*> {
    while (uses_.size() <= index) {
      const size_t next = uses_.size();
      NodeUse use;
      if (reports[next].home == graph::NodeHome::kOurs && !view->regions[next].is_region) {
        CUDAEP_ASSIGN_OR_RETURN(use, reader.Read(view->nodes[next], view->assigned[next]));
      }
      uses_.push_back(std::move(use));
    }
    return &uses_[index];
  };
  std::set<std::string> on_device;
  const auto put = [&](const NodeUse& use) { on_device.insert(use.device_outputs.begin(), use.device_outputs.end()); };
  const std::vector<bool> turning = TransposesBesideAssigned(*view);
  for (size_t i = 0; i < reports.size(); ++i) {
    if (!turning[i]) continue;
    CUDAEP_ASSIGN_OR_RETURN(const NodeUse* const use, use_of(i));
    put(*use);
  }
  for (size_t i = 0; i < reports.size(); ++i) {
    if (reports[i].home != graph::NodeHome::kOurs || !view->assigned[i]) continue;
    if (view->regions[i].is_region) {
      graph::NodeCost told;  // the report has that of each member
      for (const NodeUse& use : MembersOf(*view, i)) {
        account_->Keep(DemandOf(use, on_device, identity), &told);
        put(use);
      }
      continue;
    }
    CUDAEP_ASSIGN_OR_RETURN(const NodeUse* const use, use_of(i));
    account_->Keep(DemandOf(*use, on_device, identity), &reports[i].cost.emplace());
    put(*use);
  }
  std::vector<bool> taken = view->assigned;
  for (size_t i = 0; i < reports.size(); ++i) {
    if (!turning[i]) continue;
    CUDAEP_ASSIGN_OR_RETURN(const NodeUse* const use, use_of(i));
    const graph::NodeDemand demand = DemandOf(*use, on_device, identity);
    if (account_->Fits(demand)) taken[i] = account_->Take(demand, &reports[i].cost.emplace());
  }
  for (size_t i = 0; i < reports.size(); ++i) {
    graph::NodeReport& report = reports[i];
    if (report.home != graph::NodeHome::kOurs || taken[i]) continue;
    const bool had_ended = account_->ended();
    if (!had_ended) {
      CUDAEP_ASSIGN_OR_RETURN(const NodeUse* const use, use_of(i));
      if (account_->Take(DemandOf(*use, on_device, identity), &report.cost.emplace())) {
        put(*use);
        continue;
      }
      ended_at_ = graph::Label(report);
    }
    report.home = graph::NodeHome::kOverBudget;
    if (had_ended) {
      report.reason = StrCat("the memory budget ended at ", ended_at_);
      continue;
    }
    const bool is_hosts = report.cost->bytes <= account_->left_bytes() && account_->limit_bytes() != 0;
    const uint64_t bytes = is_hosts ? graph::HostBytesOf(*report.cost) : report.cost->bytes,
                   left = is_hosts ? account_->host_left_bytes() : account_->left_bytes();
    report.reason =
        StrCat("costs ", FormatBytes(bytes), "; of the memory budget of ", FormatBytes(account_->limit_bytes()), ", ",
               FormatBytes(left), " are left", is_hosts ? " by the host's account" : "");
  }
  return Status::Ok();
}

void BudgetClaims::Join(const GraphView& view, std::span<const int> nodes) {
  const auto members = std::make_shared<std::vector<NodeUse>>();
  for (const int node : nodes) {
    const auto index = static_cast<size_t>(node);
    if (view.report.nodes[index].cost) members->push_back(uses_[index]);
    for (const int output : view.placement.nodes[index].outputs) {
      if (output >= 0) members_[view.placement.values[static_cast<size_t>(output)].name] = members;
    }
  }
}

std::span<const NodeUse> BudgetClaims::MembersOf(const GraphView& view, size_t region) const {
  for (const int output : view.placement.nodes[region].outputs) {
    if (output < 0) continue;
    const auto found = members_.find(view.placement.values[static_cast<size_t>(output)].name);
    if (found != members_.end()) return *found->second;
  }
  return {};
}

graph::BudgetReport BudgetClaims::Report() const {
  return {.limit_bytes = account_->limit_bytes(),
          .is_stated = setting_.limit_bytes.has_value(),
          .stats_file = setting_.stats_file,
          .stated_bytes = account_->stated_bytes(),
          .nodes = account_->nodes(),
          .unknown_nodes = account_->unknown_nodes()};
}

}  // namespace cudaep::abi
