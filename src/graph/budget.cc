#include "graph/budget.h"

#include <algorithm>
#include <charconv>

#include "core/checked_math.h"
#include "runtime/workspace_size.h"

namespace cudaep::graph {
namespace {

constexpr uint64_t kKilobyte = 1024;
constexpr uint64_t kMostKilobytes = UINT64_MAX / kKilobyte;
constexpr size_t kStatsColumns = 5;

bool ParseNumber(std::string_view text, uint64_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

uint64_t Sum(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return CheckedAdd(a, b, &sum) ? sum : UINT64_MAX;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// The host's names end with a hash of the node; those without one are taken as they are.
std::string_view WithoutHash(std::string_view name) {
  const size_t mark = name.rfind('_');
  if (mark == std::string_view::npos || mark + 1 == name.size()) return name;
  const std::string_view hash = name.substr(mark + 1);
  const bool digits = std::all_of(hash.begin(), hash.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits ? name.substr(0, mark) : name;
}

// The blocks that are not there yet.
uint64_t NewBytes(const std::vector<NodeDemand::Block>& blocks, const std::set<std::string>& present) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto same = [&](const NodeDemand::Block& other) { return other.identity == blocks[i].identity; };
    const bool twice = std::any_of(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(i), same);
    if (!twice && !present.contains(blocks[i].identity)) bytes = Sum(bytes, blocks[i].bytes);
  }
  return bytes;
}

}  // namespace

Result<BudgetSetting> ParseBudgetSetting(std::string_view text) {
  BudgetSetting setting;
  const auto parts = Split(text, ',');
  uint64_t kilobytes = 0;
  const bool has_limit = parts.size() == 2 && !parts[0].empty();
  if (parts.size() != 2 || (has_limit && (!ParseNumber(parts[0], &kilobytes) || kilobytes > kMostKilobytes))) {
    return InvalidArgument("session entry ", kBudgetKey, "='", text,
                           "' is malformed; accepted: 'KB,FILE', a limit in kilobytes, 0 to ", kMostKilobytes,
                           ", and a stats file beside the model; either may be left out, the comma not");
  }
  if (has_limit) setting.limit_bytes = kilobytes * kKilobyte;
  setting.stats_file = parts[1];
  return setting;
}

Result<NodeStats> NodeStats::Parse(std::string_view text, const std::string& path) {
  NodeStats stats;
  size_t number = 0;
  for (std::string_view line : Split(text, '\n')) {
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    // The four sizes are the last columns: a name may have commas.
    uint64_t bytes = 0;
    size_t columns = 1;
    for (size_t mark = line.rfind(','); mark != std::string_view::npos && columns < kStatsColumns;
         mark = line.rfind(',')) {
      uint64_t size = 0;
      if (!ParseNumber(line.substr(mark + 1), &size)) break;
      bytes = Sum(bytes, size);
      line = line.substr(0, mark);
      ++columns;
    }
    if (columns != kStatsColumns) {
      return InvalidArgument("session entry ", kBudgetKey, ": line ", number, " of the stats file ", path,
                             " is malformed; accepted: what session.collect_node_memory_stats_to_file writes, a name "
                             "and four sizes in bytes, with commas between them");
    }
    uint64_t& kept = stats.bytes_[std::string(WithoutHash(line))];
    kept = std::max(kept, bytes);
  }
  return stats;
}

std::optional<uint64_t> NodeStats::Find(std::string_view node_name) const {
  const auto found = node_name.empty() ? bytes_.end() : bytes_.find(node_name);
  if (found == bytes_.end()) return std::nullopt;
  return found->second;
}

uint64_t HostBytesOf(const NodeCost& cost) {
  const uint64_t counted = Sum(Sum(cost.weights, cost.outputs), cost.in_host_memory);
  return Sum(counted, counted / 2);
}

void BudgetAccount::BeginGraph(const std::string& identity) {
  const auto known =
      std::find_if(graphs_.begin(), graphs_.end(), [&](const Graph& graph) { return graph.identity == identity; });
  if (known != graphs_.end()) {
    state_ = std::move(known->before);
    graphs_.erase(known, graphs_.end());
  }
  graphs_.push_back({identity, state_});
}

bool BudgetAccount::Fits(const NodeDemand& demand) const { return HasRoomFor(CostOf(demand)); }

bool BudgetAccount::HasRoomFor(const NodeCost& cost) const {
  const bool host_agrees = !host_counts_ || HostBytesOf(cost) <= host_left_bytes();
  return !state_.ended && limit_ != 0 && cost.bytes <= left_bytes() && host_agrees;
}

bool BudgetAccount::Take(const NodeDemand& demand, NodeCost* cost) {
  *cost = CostOf(demand);
  if (!HasRoomFor(*cost)) state_.ended = true;
  if (state_.ended) return false;
  Charge(demand, *cost);
  return true;
}

void BudgetAccount::Keep(const NodeDemand& demand, NodeCost* cost) {
  *cost = CostOf(demand);
  Charge(demand, *cost);
}

// A larger block is taken before the smaller one is given back.
uint64_t BudgetAccount::GrowthOf(const NodeDemand& demand) const {
  const uint64_t packing = demand.packing > state_.packing ? demand.packing - state_.packing : 0;
  if (demand.workspace <= state_.workspace) return packing;
  return Sum(packing, WorkspaceBlockBytes(demand.workspace, state_.workspace, exact_workspace_));
}

NodeCost BudgetAccount::CostOf(const NodeDemand& demand) const {
  NodeCost cost{.weights = NewBytes(demand.weights, state_.present),
                .copies = NewBytes(demand.copies, state_.present),
                .outputs = demand.outputs,
                .in_host_memory = demand.in_host_memory,
                .workspace = GrowthOf(demand),
                .recorded = demand.recorded.has_value(),
                .unknown = demand.recorded ? std::string() : demand.unknown};
  if (demand.recorded) {
    const uint64_t shared = NewBytes(demand.weights, {}) - cost.weights;
    cost.bytes = *demand.recorded - std::min(shared, *demand.recorded);
  } else {
    cost.bytes = Sum(Sum(cost.weights, cost.copies), Sum(cost.outputs, cost.workspace));
  }
  return cost;
}

void BudgetAccount::Charge(const NodeDemand& demand, const NodeCost& cost) {
  state_.stated = Sum(state_.stated, cost.bytes);
  state_.host_stated = Sum(state_.host_stated, HostBytesOf(cost));
  ++state_.nodes;
  if (!cost.unknown.empty()) ++state_.unknown_nodes;
  for (const auto& block : demand.weights) state_.present.insert(block.identity);
  for (const auto& block : demand.copies) state_.present.insert(block.identity);
  state_.packing = std::max(state_.packing, demand.packing);
  if (demand.workspace > state_.workspace) {
    state_.workspace = WorkspaceBlockBytes(demand.workspace, state_.workspace, exact_workspace_);
  }
}

}  // namespace cudaep::graph
