// A graph without cycles whose nodes can be merged as long as it has none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/region/links.h"

namespace cudaep::graph {

class RegionQuotient {
 public:
  // `successors` must have no cycle; edges of a node to itself do not count.
  RegionQuotient(std::vector<std::vector<int>> successors, int64_t work_limit);

  // The node that stands for this one and all it was merged with.
  int Find(int node) { return merged_.Find(node); }

  // Makes two nodes one unless a path between them runs through a third. False then, and where they are one already or
  // the steps that searches may take are used up.
  bool Merge(int a, int b);

 private:
  void Order();
  // Marks what `from` reaches before the place of `to`. True if an edge of those, other than of `from`, leads to `to`.
  bool MarkAndFind(int from, int to);
  // Moves the marked nodes behind `to`, which they do not reach, and `from` to where they begin.
  void MoveTogether(int from, int to);
  bool IsMarked(int node) const { return mark_[static_cast<size_t>(node)] == round_; }

  std::vector<std::vector<int>> successors_;
  DisjointSets merged_;
  std::vector<int> order_;  // a topological order; -1 where a node was merged away
  std::vector<int> place_;  // of each node in it
  std::vector<int> mark_;
  int round_ = 0;
  int64_t work_left_;
};

}  // namespace cudaep::graph
