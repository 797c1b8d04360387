#include "region_oracle.h"

#include <algorithm>
#include <deque>
#include <set>

namespace cudaep::graph {
namespace {

std::string Text(size_t node) { return "node " + std::to_string(node); }

}  // namespace

RegionOracle::RegionOracle(const RegionGraph& graph)
    : graph_(graph), edges_(graph.nodes.size()), readers_(graph.values.size()) {
  for (size_t n = 0; n < Count(); ++n) {
    for (const RegionUse& use : graph.nodes[n].inputs) {
      if (use.value < 0) continue;
      const RegionValue& value = graph.values[static_cast<size_t>(use.value)];
      readers_[static_cast<size_t>(use.value)].push_back(static_cast<int>(n));
      if (value.producer >= 0) edges_[static_cast<size_t>(value.producer)].push_back(static_cast<int>(n));
    }
  }
  if (Count() <= kMostNodes) reach_ = Closure(edges_);
}

std::string RegionOracle::Wrong(const std::vector<std::vector<int>>& groups, int least_device_nodes) const {
  std::string wrong = WrongList(groups, least_device_nodes);
  if (!wrong.empty()) return wrong;
  const std::vector<int> group_of = GroupOf(groups);
  wrong = BrokenRule(group_of);
  if (!wrong.empty()) return wrong;
  if (HasCycle(group_of)) return "a cycle of groups";
  if (Count() > kMostNodes) return "";
  for (const std::vector<int>& group : groups) {
    const std::string of = " (the group of " + Text(static_cast<size_t>(group.front())) + ")";
    if (!IsConvex(group)) return "not convex" + of;
    if (Partitions(group) != 1) return "the host would split it" + of;
  }
  return "";
}

std::vector<int> RegionOracle::GroupOf(const std::vector<std::vector<int>>& groups) const {
  std::vector<int> group_of(Count(), kNoGroup);
  for (size_t g = 0; g < groups.size(); ++g) {
    for (int node : groups[g]) group_of[static_cast<size_t>(node)] = static_cast<int>(g);
  }
  return group_of;
}

// Order, sizes, roles, and that no node is in two groups.
std::string RegionOracle::WrongList(const std::vector<std::vector<int>>& groups, int least_device_nodes) const {
  std::set<int> seen;
  int last_first = -1;
  for (const std::vector<int>& group : groups) {
    if (group.empty()) return "an empty group";
    if (group.front() <= last_first) return "groups out of order";
    last_first = group.front();
    if (!std::is_sorted(group.begin(), group.end())) return "a group out of order";
    int device_nodes = 0;
    for (int node : group) {
      if (node < 0 || static_cast<size_t>(node) >= Count() || !seen.insert(node).second) return "a node twice, or none";
      const RegionRole role = graph_.nodes[static_cast<size_t>(node)].role;
      if (role == RegionRole::kOutside) return Text(static_cast<size_t>(node)) + " is no candidate";
      device_nodes += role == RegionRole::kDevice;
    }
    if (device_nodes < least_device_nodes) return "a small group";
  }
  return "";
}

std::string RegionOracle::BrokenRule(const std::vector<int>& group_of) const {
  for (size_t n = 0; n < Count(); ++n) {
    if (group_of[n] != kNoGroup && !KeepsRules(n, group_of)) return Text(n) + " breaks a rule";
  }
  return "";
}

bool RegionOracle::KeepsRules(size_t node, const std::vector<int>& group_of) const {
  const RegionNode& it = graph_.nodes[node];
  const auto shape_of_the_group = [&](int producer) {
    return producer >= 0 && graph_.nodes[static_cast<size_t>(producer)].role == RegionRole::kShape &&
           group_of[static_cast<size_t>(producer)] == group_of[node];
  };
  for (const RegionUse& use : it.inputs) {
    if (use.value < 0) continue;
    const RegionValue& value = graph_.values[static_cast<size_t>(use.value)];
    const bool needs_host_value = it.role == RegionRole::kShape ? !it.reads_dims_only : use.host_input;
    if (needs_host_value && !value.host_constant && !shape_of_the_group(value.producer)) return false;
  }
  if (it.role != RegionRole::kShape) return true;
  for (int output : it.outputs) {
    if (output < 0) continue;
    if (graph_.values[static_cast<size_t>(output)].leaves) return false;
    for (int reader : readers_[static_cast<size_t>(output)]) {
      if (group_of[static_cast<size_t>(reader)] != group_of[node]) return false;
    }
  }
  return true;
}

// Each group is one node: Kahn's algorithm must come to all of them.
bool RegionOracle::HasCycle(const std::vector<int>& group_of) const {
  const auto name = [&](size_t node) {
    return group_of[node] == kNoGroup ? node : Count() + static_cast<size_t>(group_of[node]);
  };
  std::vector<int> waits_for(2 * Count(), 0);
  std::vector<std::vector<size_t>> next(2 * Count());
  for (size_t n = 0; n < Count(); ++n) {
    for (int successor : edges_[n]) {
      const size_t to = name(static_cast<size_t>(successor));
      if (to == name(n)) continue;
      next[name(n)].push_back(to);
      ++waits_for[to];
    }
  }
  std::vector<size_t> ready;
  for (size_t i = 0; i < waits_for.size(); ++i) {
    if (waits_for[i] == 0) ready.push_back(i);
  }
  for (size_t i = 0; i < ready.size(); ++i) {
    for (size_t to : next[ready[i]]) {
      if (--waits_for[to] == 0) ready.push_back(to);
    }
  }
  return ready.size() != waits_for.size();
}

bool RegionOracle::IsConvex(const std::vector<int>& group) const {
  NodeSet members;
  NodeSet after;
  for (int node : group) {
    members.set(static_cast<size_t>(node));
    after |= reach_[static_cast<size_t>(node)];
  }
  for (size_t n = 0; n < Count(); ++n) {
    if (after[n] && !members[n] && (reach_[n] & members).any()) return false;
  }
  return true;
}

// The host walks the graph in waves: a wave takes members of the group and other nodes as they become ready, but lets
// those wait that read a member's output. Each wave with members is a partition.
size_t RegionOracle::Partitions(const std::vector<int>& group) const {
  std::set<size_t> members;
  for (int node : group) members.insert(static_cast<size_t>(node));
  std::vector<int> waits_for(Count(), 0);
  for (const auto& successors : edges_) {
    for (int to : successors) ++waits_for[static_cast<size_t>(to)];
  }
  std::deque<size_t> ready;
  for (size_t n = 0; n < Count(); ++n) {
    if (waits_for[n] == 0) ready.push_back(n);
  }
  size_t partitions = 0;
  std::deque<size_t> later;
  while (!ready.empty()) {
    std::set<size_t> border;
    bool any = false;
    while (!ready.empty()) {
      const size_t node = ready.front();
      ready.pop_front();
      const bool member = members.count(node) != 0;
      if (!member && border.count(node) != 0) {
        later.push_back(node);
        continue;
      }
      any = any || member;
      for (int to : edges_[node]) {
        if (member) border.insert(static_cast<size_t>(to));
        if (--waits_for[static_cast<size_t>(to)] == 0) ready.push_back(static_cast<size_t>(to));
      }
    }
    partitions += any;
    ready.swap(later);
  }
  return partitions;
}

RegionOracle::Matrix RegionOracle::Closure(const std::vector<std::vector<int>>& edges) const {
  Matrix reach(Count());
  for (size_t n = 0; n < Count(); ++n) {
    for (int to : edges[n]) reach[n].set(static_cast<size_t>(to));
  }
  for (size_t via = 0; via < Count(); ++via) {
    for (size_t n = 0; n < Count(); ++n) {
      if (reach[n][via]) reach[n] |= reach[via];
    }
  }
  return reach;
}

// Candidates as far as the rules of nodes tell without groups: whoever breaks one in a group of all that are left goes,
// until nobody does.
std::vector<bool> RegionOracle::Eligible() const {
  std::vector<int> home(Count(), 0);
  for (size_t n = 0; n < Count(); ++n) {
    if (graph_.nodes[n].role == RegionRole::kOutside) home[n] = kNoGroup;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t n = 0; n < Count(); ++n) {
      if (home[n] == kNoGroup || KeepsRules(n, home)) continue;
      home[n] = kNoGroup;
      changed = true;
    }
  }
  std::vector<bool> eligible(Count());
  for (size_t n = 0; n < Count(); ++n) eligible[n] = home[n] != kNoGroup;
  return eligible;
}

// Whether no cycle of edges, and of ties backwards, has a node that is no candidate.
bool RegionOracle::CanJoin(std::vector<bool> candidates, const std::vector<size_t>& more) const {
  for (size_t node : more) candidates[node] = true;
  std::vector<std::vector<int>> edges = edges_;
  for (size_t n = 0; n < Count(); ++n) {
    if (!candidates[n] || graph_.nodes[n].role != RegionRole::kShape) continue;
    for (int reader : edges_[n]) edges[static_cast<size_t>(reader)].push_back(static_cast<int>(n));
  }
  const Matrix reach = Closure(edges);
  for (size_t n = 0; n < Count(); ++n) {
    if (!candidates[n] && reach[n][n]) return false;
  }
  return true;
}

// The node and what ties connect it with.
std::vector<size_t> RegionOracle::TiedTo(size_t node, const std::vector<bool>& eligible) const {
  std::vector<size_t> set = {node};
  std::vector<bool> seen(Count(), false);
  seen[node] = true;
  const auto add = [&](size_t other) {
    if (!seen[other]) set.push_back(other);
    seen[other] = true;
  };
  for (size_t i = 0; i < set.size(); ++i) {
    for (size_t n = 0; n < Count(); ++n) {
      if (!eligible[n] || graph_.nodes[n].role != RegionRole::kShape) continue;
      for (int reader : edges_[n]) {
        if (n == set[i]) add(static_cast<size_t>(reader));
        if (reader == static_cast<int>(set[i])) add(n);
      }
    }
  }
  return set;
}

std::string RegionOracle::Missed(const std::vector<std::vector<int>>& groups) const {
  const std::vector<int> group_of = GroupOf(groups);
  const std::vector<bool> eligible = Eligible();
  std::vector<bool> taken(Count());
  for (size_t n = 0; n < Count(); ++n) taken[n] = group_of[n] != kNoGroup;
  for (size_t n = 0; n < Count(); ++n) {
    if (eligible[n] && !taken[n]) {
      const std::vector<size_t> set = TiedTo(n, eligible);
      const bool device = std::any_of(set.begin(), set.end(),
                                      [&](size_t node) { return graph_.nodes[node].role == RegionRole::kDevice; });
      if (device && CanJoin(taken, set)) return Text(n) + " could be in a group";
    }
    for (int to : edges_[n]) {
      const int other = group_of[static_cast<size_t>(to)];
      if (!taken[n] || other == kNoGroup || other == group_of[n]) continue;
      std::vector<int> merged = group_of;
      std::replace(merged.begin(), merged.end(), other, group_of[n]);
      if (!HasCycle(merged)) return "the groups of " + Text(n) + " and " + std::to_string(to) + " could be one";
    }
  }
  return "";
}

}  // namespace cudaep::graph
