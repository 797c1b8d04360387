// A region graph's edges from the producers' side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/region/regions.h"

namespace cudaep::graph {

struct RegionLinks {
  explicit RegionLinks(const RegionGraph& graph);

  struct Reader {
    int node;
    bool host_input;
  };
  std::vector<std::vector<Reader>> readers;  // of each value, in the graph's order; one for each use
  std::vector<std::vector<int>> successors;  // of each node, in the graph's order, each once

  // Nodes and edges.
  int64_t Size() const { return size_; }
  // Steps that a search which is not linear may take in all: tens of milliseconds where it is used up.
  int64_t WorkLimit() const { return 1'000'000 + 40 * size_; }

 private:
  int64_t size_ = 0;
};

// A forest of disjoint sets.
class DisjointSets {
 public:
  explicit DisjointSets(size_t count);
  int Find(int item);
  // The least item of the two sets stands for both.
  void Unite(int a, int b);
  // `keeper` stands for both; each stands for its own set.
  void Absorb(int keeper, int other) { parent_[static_cast<size_t>(other)] = keeper; }

 private:
  std::vector<int> parent_;
};

}  // namespace cudaep::graph
