#include "graph/region/quotient.h"

#include <utility>

namespace cudaep::graph {

RegionQuotient::RegionQuotient(std::vector<std::vector<int>> successors, int64_t work_limit)
    : successors_(std::move(successors)),
      merged_(successors_.size()),
      place_(successors_.size(), -1),
      mark_(successors_.size(), 0),
      work_left_(work_limit) {
  Order();
}

void RegionQuotient::Order() {
  std::vector<int> waits_for(successors_.size(), 0);
  for (size_t n = 0; n < successors_.size(); ++n) {
    for (int next : successors_[n]) waits_for[static_cast<size_t>(next)] += next != static_cast<int>(n);
  }
  for (size_t n = 0; n < successors_.size(); ++n) {
    if (waits_for[n] == 0) order_.push_back(static_cast<int>(n));
  }
  for (size_t place = 0; place < order_.size(); ++place) {
    const auto n = static_cast<size_t>(order_[place]);
    place_[n] = static_cast<int>(place);
    for (int next : successors_[n]) {
      if (next != static_cast<int>(n) && --waits_for[static_cast<size_t>(next)] == 0) order_.push_back(next);
    }
  }
}

bool RegionQuotient::Merge(int a, int b) {
  a = Find(a);
  b = Find(b);
  if (a == b || work_left_ < 0) return false;
  if (place_[static_cast<size_t>(a)] > place_[static_cast<size_t>(b)]) std::swap(a, b);
  if (MarkAndFind(a, b)) return false;
  MoveTogether(a, b);
  merged_.Absorb(a, b);
  std::vector<int>& kept = successors_[static_cast<size_t>(a)];
  std::vector<int>& added = successors_[static_cast<size_t>(b)];
  if (kept.size() < added.size()) kept.swap(added);
  kept.insert(kept.end(), added.begin(), added.end());
  added = {};
  return true;
}

bool RegionQuotient::MarkAndFind(int from, int to) {
  ++round_;
  const int end = place_[static_cast<size_t>(to)];
  std::vector<int> open = {from};
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    work_left_ -= static_cast<int64_t>(successors_[static_cast<size_t>(node)].size()) + 1;
    for (int successor : successors_[static_cast<size_t>(node)]) {
      const int next = Find(successor);
      if (next == to && node != from) return true;
      if (next == from || place_[static_cast<size_t>(next)] >= end || IsMarked(next)) continue;
      mark_[static_cast<size_t>(next)] = round_;
      open.push_back(next);
    }
  }
  return false;
}

// What is not marked and lies between the two is not reached from `from`, so it may come before it. Nothing marked has
// an edge to that or to `to`.
void RegionQuotient::MoveTogether(int from, int to) {
  const auto begin = static_cast<size_t>(place_[static_cast<size_t>(from)]);
  const auto end = static_cast<size_t>(place_[static_cast<size_t>(to)]) + 1;
  work_left_ -= static_cast<int64_t>(end - begin);
  std::vector<int> behind = {from};
  size_t place = begin;
  const auto put = [&](int node) {
    order_[place] = node;
    place_[static_cast<size_t>(node)] = static_cast<int>(place++);
  };
  for (size_t i = begin; i < end; ++i) {
    const int node = order_[i];
    if (node < 0 || node == from || node == to) continue;
    if (IsMarked(node)) {
      behind.push_back(node);
    } else {
      put(node);
    }
  }
  for (int node : behind) put(node);
  while (place < end) order_[place++] = -1;
}

}  // namespace cudaep::graph
