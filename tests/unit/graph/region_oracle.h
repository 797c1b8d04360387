// What must hold of the groups that FindRegions gives, told by other means than it uses: matrices and fixpoints.
#pragma once

#include <bitset>
#include <string>
#include <vector>

#include "graph/region/regions.h"

namespace cudaep::graph {

class RegionOracle {
 public:
  static constexpr size_t kMostNodes = 64;  // for what takes matrices

  explicit RegionOracle(const RegionGraph& graph);

  // What is wrong with the groups; empty where nothing is.
  std::string Wrong(const std::vector<std::vector<int>>& groups, int least_device_nodes) const;

  // Two groups with an edge between them that could be one; a candidate that could be in a group and is in none. Graphs
  // of kMostNodes nodes at most; groups for one kDevice node at least. Empty where nothing is missed.
  std::string Missed(const std::vector<std::vector<int>>& groups) const;

 private:
  using NodeSet = std::bitset<kMostNodes>;
  using Matrix = std::vector<NodeSet>;
  enum Home { kNoGroup = -1 };

  size_t Count() const { return graph_.nodes.size(); }
  std::vector<int> GroupOf(const std::vector<std::vector<int>>& groups) const;
  std::string WrongList(const std::vector<std::vector<int>>& groups, int least_device_nodes) const;
  std::string BrokenRule(const std::vector<int>& group_of) const;
  bool KeepsRules(size_t node, const std::vector<int>& group_of) const;
  bool HasCycle(const std::vector<int>& group_of) const;
  bool IsConvex(const std::vector<int>& group) const;
  size_t Partitions(const std::vector<int>& group) const;
  Matrix Closure(const std::vector<std::vector<int>>& edges) const;
  std::vector<bool> Eligible() const;
  bool CanJoin(std::vector<bool> candidates, const std::vector<size_t>& more) const;
  std::vector<size_t> TiedTo(size_t node, const std::vector<bool>& eligible) const;

  const RegionGraph& graph_;
  std::vector<std::vector<int>> edges_;    // successors
  std::vector<std::vector<int>> readers_;  // of each value
  Matrix reach_;                           // of small graphs
};

}  // namespace cudaep::graph
