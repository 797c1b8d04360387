#include "graph/region/ties.h"

#include <algorithm>
#include <map>
#include <utility>

namespace cudaep::graph {
namespace {

class TieResolver {
 public:
  TieResolver(const RegionGraph& graph, const RegionLinks& links, RegionCandidates* candidates)
      : graph_(graph),
        links_(links),
        candidates_(*candidates),
        reached_(graph.nodes.size(), 0),
        passed_(graph.nodes.size(), 0),
        work_left_(links.WorkLimit()) {}

  RegionAtoms Resolve() {
    RegionAtoms atoms = RemoveUntilWhole();
    for (bool any = true; any;) {
      any = false;
      for (std::vector<int>& set : given_up_) any = TakeBack(&set, &atoms) || any;
    }
    return atoms;
  }

 private:
  using TiedSets = std::vector<std::vector<int>>;

  RegionAtoms RemoveUntilWhole() {
    for (;;) {
      RegionAtoms atoms = Atoms();
      std::vector<TiedSets> in_the_way;  // of each atom that is not whole
      for (const std::vector<int>& members : atoms.members) {
        if (!IsWhole(members)) in_the_way.push_back(SetsOf(members));
      }
      if (in_the_way.empty()) return atoms;
      if (!RemoveHopeless(in_the_way)) RemoveSmallest(in_the_way);
    }
  }

  RegionAtoms Atoms() {
    work_left_ -= 4 * links_.Size();  // a step here takes longer than others
    return FindAtoms(graph_, links_, candidates_);
  }

  bool IsWhole(const std::vector<int>& atom) const {
    return atom.size() == 1 || std::all_of(atom.begin(), atom.end(), [&](int node) { return candidates_.Has(node); });
  }

  // Those that can be in no group, whatever becomes of the others. All where there is no time to find out.
  bool RemoveHopeless(const std::vector<TiedSets>& in_the_way) {
    bool any = false;
    for (const TiedSets& sets : in_the_way) {
      for (const std::vector<int>& set : sets) {
        if (work_left_ >= 0 && !LeavesAndReturns(set)) continue;
        if (!given_up_.empty()) given_up_.push_back(set);
        RemoveShapeNodes(set);
        any = true;
      }
    }
    return any;
  }

  // One of those that prevent each other.
  void RemoveSmallest(const std::vector<TiedSets>& in_the_way) {
    for (const TiedSets& sets : in_the_way) {
      given_up_.push_back(*std::min_element(
          sets.begin(), sets.end(), [&](const auto& a, const auto& b) { return DeviceNodes(a) < DeviceNodes(b); }));
      RemoveShapeNodes(given_up_.back());
    }
  }

  // What prevented the set may have gone later.
  bool TakeBack(std::vector<int>* set, RegionAtoms* atoms) {
    if (set->empty() || work_left_ < 0) return false;
    candidates_.PutBack(*set);
    RegionAtoms with_it = Atoms();
    if (!std::all_of(with_it.members.begin(), with_it.members.end(), [&](const auto& atom) { return IsWhole(atom); })) {
      RemoveShapeNodes(*set);
      return false;
    }
    *atoms = std::move(with_it);
    set->clear();
    return true;
  }

  // The tied sets of an atom, by their first nodes, each in the graph's order.
  TiedSets SetsOf(const std::vector<int>& atom) {
    std::map<int, int> place;
    for (int node : atom) place.emplace(node, static_cast<int>(place.size()));
    DisjointSets tied(atom.size());
    for (int node : atom) {
      if (!candidates_.IsShape(node)) continue;
      for (int reader : links_.successors[static_cast<size_t>(node)]) tied.Unite(place.at(node), place.at(reader));
    }
    std::map<int, std::vector<int>> sets;
    for (size_t i = 0; i < atom.size(); ++i) sets[tied.Find(static_cast<int>(i))].push_back(atom[i]);
    TiedSets result;
    for (auto& [first, set] : sets) {
      if (set.size() > 1) result.push_back(std::move(set));
    }
    return result;
  }

  // Whether a path from the set to the set passes a node that is no candidate.
  bool LeavesAndReturns(const std::vector<int>& set) {
    ++round_;
    work_left_ -= set.back() - set.front();
    for (int node : set) reached_[static_cast<size_t>(node)] = round_;
    auto member = set.begin();
    for (int node = set.front(); node <= set.back(); ++node) {
      const auto n = static_cast<size_t>(node);
      const bool passed = passed_[n] == round_;
      if (node == *member) {
        if (passed) return true;
        ++member;
      }
      if (reached_[n] != round_) continue;
      work_left_ -= static_cast<int64_t>(links_.successors[n].size());
      for (int next : links_.successors[n]) {
        reached_[static_cast<size_t>(next)] = round_;
        if (passed || !candidates_.Has(node)) passed_[static_cast<size_t>(next)] = round_;
      }
    }
    return false;
  }

  void RemoveShapeNodes(const std::vector<int>& nodes) {
    for (int node : nodes) {
      if (candidates_.IsShape(node)) candidates_.Remove(node);
    }
  }

  std::ptrdiff_t DeviceNodes(const std::vector<int>& set) const {
    return std::count_if(set.begin(), set.end(), [&](int node) { return !candidates_.IsShape(node); });
  }

  const RegionGraph& graph_;
  const RegionLinks& links_;
  RegionCandidates& candidates_;
  std::vector<int> reached_;  // the last round in which a path came to the node
  std::vector<int> passed_;   // and one through a node that is no candidate
  int round_ = 0;
  TiedSets given_up_;  // the first that went only because of others, and all since then
  int64_t work_left_;
};

}  // namespace

RegionAtoms ResolveTies(const RegionGraph& graph, const RegionLinks& links, RegionCandidates* candidates) {
  return TieResolver(graph, links, candidates).Resolve();
}

}  // namespace cudaep::graph
