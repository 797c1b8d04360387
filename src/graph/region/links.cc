#include "graph/region/links.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace cudaep::graph {

RegionLinks::RegionLinks(const RegionGraph& graph)
    : readers(graph.values.size()), successors(graph.nodes.size()), size_(static_cast<int64_t>(graph.nodes.size())) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const int node = static_cast<int>(n);
    for (const RegionUse& use : graph.nodes[n].inputs) {
      if (use.value < 0) continue;
      const auto v = static_cast<size_t>(use.value);
      readers[v].push_back({node, use.host_input});
      if (graph.values[v].producer < 0) continue;
      // Nodes come in order, so a repeated one is the last.
      std::vector<int>& after = successors[static_cast<size_t>(graph.values[v].producer)];
      if (!after.empty() && after.back() == node) continue;
      after.push_back(node);
      ++size_;
    }
  }
}

DisjointSets::DisjointSets(size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0); }

int DisjointSets::Find(int item) {
  int root = item;
  while (parent_[static_cast<size_t>(root)] != root) root = parent_[static_cast<size_t>(root)];
  while (item != root) item = std::exchange(parent_[static_cast<size_t>(item)], root);
  return root;
}

void DisjointSets::Unite(int a, int b) {
  a = Find(a);
  b = Find(b);
  Absorb(std::min(a, b), std::max(a, b));
}

}  // namespace cudaep::graph
