#include "graph/region/atoms.h"

#include <algorithm>
#include <utility>

namespace cudaep::graph {
namespace {

// Tarjan's algorithm, without recursion: graphs are deep.
class AtomFinder {
 public:
  AtomFinder(const RegionGraph& graph, const RegionLinks& links, const RegionCandidates& candidates)
      : graph_(graph),
        links_(links),
        candidates_(candidates),
        number_(graph.nodes.size(), 0),
        low_(graph.nodes.size(), 0),
        atoms_{std::vector<int>(graph.nodes.size(), -1), {}} {}

  RegionAtoms Find() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (number_[n] == 0) Visit(static_cast<int>(n));
    }
    return std::move(atoms_);
  }

 private:
  struct Step {
    int node;
    size_t next = 0;
  };

  void Visit(int root) {
    Open(root);
    while (!path_.empty()) {
      Step& step = path_.back();
      const auto n = static_cast<size_t>(step.node);
      if (step.next == NeighbourCount(n)) {
        path_.pop_back();
        if (!path_.empty()) Lower(static_cast<size_t>(path_.back().node), low_[n]);
        if (low_[n] == number_[n]) Close(static_cast<int>(n));
        continue;
      }
      const int neighbour = Neighbour(n, step.next++);
      if (neighbour < 0) continue;
      const auto other = static_cast<size_t>(neighbour);
      if (number_[other] == 0) {
        Open(neighbour);
      } else if (atoms_.of[other] < 0) {
        Lower(n, number_[other]);
      }
    }
  }

  size_t NeighbourCount(size_t n) const { return links_.successors[n].size() + graph_.nodes[n].inputs.size(); }

  // Successors, then the shape nodes that the node is tied to; -1 for other inputs.
  int Neighbour(size_t n, size_t index) const {
    const std::vector<int>& successors = links_.successors[n];
    if (index < successors.size()) return successors[index];
    const int value = graph_.nodes[n].inputs[index - successors.size()].value;
    const int producer = value < 0 ? -1 : graph_.values[static_cast<size_t>(value)].producer;
    return producer >= 0 && candidates_.IsShape(producer) ? producer : -1;
  }

  void Open(int node) {
    const auto n = static_cast<size_t>(node);
    number_[n] = low_[n] = ++count_;
    open_.push_back(node);
    path_.push_back({node});
  }

  void Close(int first) {
    std::vector<int> members;
    do {
      members.push_back(open_.back());
      open_.pop_back();
      atoms_.of[static_cast<size_t>(members.back())] = static_cast<int>(atoms_.members.size());
    } while (members.back() != first);
    std::sort(members.begin(), members.end());
    atoms_.members.push_back(std::move(members));
  }

  void Lower(size_t n, int number) { low_[n] = std::min(low_[n], number); }

  const RegionGraph& graph_;
  const RegionLinks& links_;
  const RegionCandidates& candidates_;
  std::vector<int> number_;  // when a node was first seen, from 1
  std::vector<int> low_;     // the first seen that it reaches
  std::vector<int> open_;
  std::vector<Step> path_;
  RegionAtoms atoms_;
  int count_ = 0;
};

}  // namespace

RegionAtoms FindAtoms(const RegionGraph& graph, const RegionLinks& links, const RegionCandidates& candidates) {
  return AtomFinder(graph, links, candidates).Find();
}

}  // namespace cudaep::graph
