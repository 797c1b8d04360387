#include "graph/region/regions.h"

#include <algorithm>
#include <utility>

#include "graph/region/atoms.h"
#include "graph/region/candidates.h"
#include "graph/region/links.h"
#include "graph/region/quotient.h"
#include "graph/region/ties.h"

namespace cudaep::graph {
namespace {

using Pairs = std::vector<std::pair<int, int>>;

class RegionFinder {
 public:
  explicit RegionFinder(const RegionGraph& graph)
      : graph_(graph), links_(graph), candidates_(graph, links_), group_(graph.nodes.size(), -1) {}

  std::vector<std::vector<int>> Find(int least_device_nodes) {
    GroupByLevels(ResolveTies(graph_, links_, &candidates_));
    MergeGroups();
    std::vector<std::vector<int>> groups(static_cast<size_t>(group_count_));
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (IsCandidate(n)) groups[static_cast<size_t>(group_[n])].push_back(static_cast<int>(n));
    }
    std::erase_if(groups, [&](const std::vector<int>& group) {
      const auto device_nodes = std::count_if(group.begin(), group.end(), [&](int node) {
        return graph_.nodes[static_cast<size_t>(node)].role == RegionRole::kDevice;
      });
      return group.empty() || device_nodes < least_device_nodes;
    });
    std::sort(groups.begin(), groups.end());
    return groups;
  }

 private:
  bool IsCandidate(size_t node) const { return candidates_.Has(static_cast<int>(node)); }

  void GroupByLevels(const RegionAtoms& atoms) {
    const std::vector<int> levels = Levels(atoms);
    DisjointSets joined(graph_.nodes.size());
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (int next : links_.successors[n]) {
        const auto s = static_cast<size_t>(next);
        const bool one_level = levels[static_cast<size_t>(atoms.of[n])] == levels[static_cast<size_t>(atoms.of[s])];
        if (IsCandidate(n) && IsCandidate(s) && one_level) joined.Unite(static_cast<int>(n), next);
      }
    }
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const int first = joined.Find(static_cast<int>(n));
      group_[n] = first == static_cast<int>(n) ? group_count_++ : group_[static_cast<size_t>(first)];
    }
  }

  // The least levels: how often at most a path to the atom leaves candidates.
  std::vector<int> Levels(const RegionAtoms& atoms) const {
    std::vector<int> levels(atoms.members.size(), 0);
    for (size_t a = atoms.members.size(); a-- > 0;) {
      for (int member : atoms.members[a]) {
        for (int next : links_.successors[static_cast<size_t>(member)]) {
          int& level = levels[static_cast<size_t>(atoms.of[static_cast<size_t>(next)])];
          level = std::max(level, levels[a] + (candidates_.Has(member) && !candidates_.Has(next)));
        }
      }
    }
    return levels;
  }

  void MergeGroups() {
    const Pairs edges = PairsWithAnEdge();
    const Pairs siblings = PairsWithAnInput();
    if (edges.empty() && siblings.empty()) return;
    std::vector<std::vector<int>> successors(static_cast<size_t>(group_count_));
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (int next : links_.successors[n]) {
        successors[static_cast<size_t>(group_[n])].push_back(group_[static_cast<size_t>(next)]);
      }
    }
    RegionQuotient quotient(std::move(successors), links_.WorkLimit());
    const auto merge = [&](const Pairs& pairs) {
      bool any = false;
      for (const auto& [a, b] : pairs) any = quotient.Merge(a, b) || any;
      return any;
    };
    do {
      while (merge(edges)) {
      }
    } while (merge(siblings));
    for (int& group : group_) group = quotient.Find(group);
  }

  // Groups that an edge joins: in the order of its end, the nearest first.
  Pairs PairsWithAnEdge() const {
    Pairs pairs;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (int next : links_.successors[n]) {
        const auto s = static_cast<size_t>(next);
        if (IsCandidate(n) && IsCandidate(s) && group_[n] != group_[s]) pairs.emplace_back(group_[s], group_[n]);
      }
    }
    std::sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    return pairs;
  }

  // Groups one after the other that read one value. Constants join nobody, nor do dimensions.
  Pairs PairsWithAnInput() const {
    Pairs pairs;
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      if (graph_.values[v].constant || graph_.values[v].host_constant) continue;
      int last = -1;
      for (const RegionLinks::Reader& reader : links_.readers[v]) {
        if (!candidates_.Has(reader.node) || candidates_.IsShape(reader.node)) continue;
        const int group = group_[static_cast<size_t>(reader.node)];
        if (last >= 0 && last != group) pairs.emplace_back(last, group);
        last = group;
      }
    }
    return pairs;
  }

  const RegionGraph& graph_;
  const RegionLinks links_;
  RegionCandidates candidates_;
  std::vector<int> group_;  // of each node; of one that is no candidate it is the only member
  int group_count_ = 0;
};

}  // namespace

std::vector<std::vector<int>> FindRegions(const RegionGraph& graph, int least_device_nodes) {
  return RegionFinder(graph).Find(least_device_nodes);
}

}  // namespace cudaep::graph
