// The nodes that can be in a region at all.
//
// What each rule says of one node and its neighbours is held at all times: a shape node whose output is wanted
// elsewhere is no candidate, nor is a reader of one in host memory. Whoever takes a node out takes out with it what
// then breaks a rule, so shape nodes that are left have candidates for readers alone.
#pragma once

#include <vector>

#include "graph/region/links.h"
#include "graph/region/regions.h"

namespace cudaep::graph {

class RegionCandidates {
 public:
  // Both outlive this.
  RegionCandidates(const RegionGraph& graph, const RegionLinks& links);

  bool Has(int node) const { return has_[static_cast<size_t>(node)]; }
  bool IsShape(int node) const {
    return Has(node) && graph_.nodes[static_cast<size_t>(node)].role == RegionRole::kShape;
  }

  void Remove(int node);
  // Undoes that, for a set that went as a whole.
  void PutBack(const std::vector<int>& nodes);

 private:
  bool BreaksARule(const RegionNode& node) const;
  bool MadeByShapeNode(const RegionValue& value) const;
  void RemoveAround(int node, std::vector<int>* doomed) const;

  const RegionGraph& graph_;
  const RegionLinks& links_;
  std::vector<bool> has_;
};

}  // namespace cudaep::graph
