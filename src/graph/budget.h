// The memory budget of a session's nodes: what the setting says, what nodes cost, and where the budget ends.
//
// A node's cost is what a Run with this node on the device takes more than one without it:
//   weights     of the node that no earlier node has,
//   copies      of values that come from host memory, once for each value,
//   outputs,
//   workspace   as far as the stream's block (runtime/workspace.h) must be larger than for the nodes before.
// It is an upper bound: nothing is subtracted for memory that a Run uses again. A stats file of the host's has a figure
// for the whole node, which then counts in its place; only weights that an earlier node has are taken off.
//
// Nodes are taken in the host's order, up to the first that does not fit; nothing after it is, in no graph. So a larger
// budget never puts fewer nodes on the device, and budget 0 puts none there.
// Pure functions and values; no threads of their own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace cudaep::graph {

// The session entry of all hosts that have budgets, whatever the provider's name is.
inline constexpr const char* kBudgetKey = "session.resource_cuda_partitioning_settings";

struct BudgetSetting {
  std::optional<uint64_t> limit_bytes;  // absent: what is free on the device
  std::string stats_file;               // empty: none
  // The host counts too, HostBytesOf for each node, and drops what does not fit: a region of many nodes whole.
  bool host_counts = false;
};

// "KB,FILE", each of which may be left out. kInvalidArgument names key and accepted values.
Result<BudgetSetting> ParseBudgetSetting(std::string_view text);

// Costs that the host recorded (session.collect_node_memory_stats_to_file).
class NodeStats {
 public:
  // A header, then lines of a node's name, `_`, a hash of the host's, and four sizes in bytes. kInvalidArgument names
  // `path`, which is only for messages, and the line.
  static Result<NodeStats> Parse(std::string_view text, const std::string& path);

  // Bytes of the node with this name; the largest where several share it.
  std::optional<uint64_t> Find(std::string_view node_name) const;

 private:
  std::map<std::string, uint64_t, std::less<>> bytes_;
};

// What a node uses.
struct NodeDemand {
  struct Block {
    std::string identity;  // within the session
    uint64_t bytes = 0;
  };
  std::vector<Block> weights;
  std::vector<Block> copies;
  uint64_t outputs = 0;
  uint64_t in_host_memory = 0;  // constants and outputs, which cost nothing but are in a host's account
  uint64_t workspace = 0;
  uint64_t packing = 0;              // a weight's second form, while both exist
  std::optional<uint64_t> recorded;  // from a stats file
  std::string unknown;               // which part is not in the figures, and why; empty: none
};

// What it adds to what the nodes before it use.
struct NodeCost {
  uint64_t weights = 0, copies = 0, outputs = 0, in_host_memory = 0, workspace = 0;
  uint64_t bytes = 0;     // the sum, or the stats file's figure
  bool recorded = false;  // bytes are the stats file's
  std::string unknown;    // as in NodeDemand
};

// What a host that keeps an account of its own counts for a node without recorded costs.
uint64_t HostBytesOf(const NodeCost& cost);

// For people and tools.
struct BudgetReport {
  uint64_t limit_bytes = 0;
  bool is_stated = false;  // by the setting; otherwise it is what was free
  std::string stats_file;
  uint64_t stated_bytes = 0;  // cost of the nodes that were taken
  size_t nodes = 0;
  size_t unknown_nodes = 0;  // of them, with a cost that is known only in part
};

class BudgetAccount {
 public:
  // `exact_workspace`: the stream's block is as large as asked for, as it is under a limit of the provider's memory.
  // `host_counts`: what the host would drop does not fit either.
  BudgetAccount(uint64_t limit_bytes, bool exact_workspace, bool host_counts = false)
      : limit_(limit_bytes), exact_workspace_(exact_workspace), host_counts_(host_counts) {}

  // The nodes of a graph follow. What was said about it before, and about the graphs after it, is forgotten: the host
  // asks for a session's graphs in the same order each time.
  void BeginGraph(const std::string& identity);

  // Whether Take would take the node.
  bool Fits(const NodeDemand& demand) const;
  // The node's cost; charged when it fits. False when it does not, or when an earlier one did not.
  bool Take(const NodeDemand& demand, NodeCost* cost);
  // Of a node that the host has given us before and does not take back: charged in any case.
  void Keep(const NodeDemand& demand, NodeCost* cost);

  uint64_t limit_bytes() const { return limit_; }
  uint64_t stated_bytes() const { return state_.stated; }
  uint64_t left_bytes() const { return limit_ > state_.stated ? limit_ - state_.stated : 0; }
  // Of the host's account.
  uint64_t host_left_bytes() const { return limit_ > state_.host_stated ? limit_ - state_.host_stated : 0; }
  size_t nodes() const { return state_.nodes; }
  size_t unknown_nodes() const { return state_.unknown_nodes; }  // whose cost is only in part in the figures
  // A node did not fit.
  bool ended() const { return state_.ended; }

 private:
  struct State {
    uint64_t stated = 0, host_stated = 0, workspace = 0, packing = 0;
    size_t nodes = 0, unknown_nodes = 0;
    bool ended = false;
    std::set<std::string> present;  // weights and copies
  };
  struct Graph {
    std::string identity;
    State before;
  };

  NodeCost CostOf(const NodeDemand& demand) const;
  bool HasRoomFor(const NodeCost& cost) const;
  uint64_t GrowthOf(const NodeDemand& demand) const;
  void Charge(const NodeDemand& demand, const NodeCost& cost);

  uint64_t limit_;
  bool exact_workspace_, host_counts_;
  State state_;
  std::vector<Graph> graphs_;
};

}  // namespace cudaep::graph
