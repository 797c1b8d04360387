// How models split rows into heads, turn these to the front, and merge them again.
#pragma once

#include "graph/pass/match.h"

namespace cudaep::graph {

// Whether both may be the same elements, `apart` as [a, b, rows, columns], `flat` as [a * b, rows, columns]: whether a
// and b are a batch and its heads is for others to ask.
bool HoldsHeadsApart(const ir::Graph& graph, int apart, int flat);

class HeadsMatch {
 public:
  HeadsMatch(const ir::Graph& graph, const Matcher& match) : graph_(graph), match_(match) {}

  // Whether it turns [batch, rows, heads, size] to [batch, heads, rows, size], or back.
  bool IsTurn(const ir::Node& node) const;
  // [batch, rows, heads * size] of which [batch, rows, heads, size] is a view; -1: of none.
  int MergedSource(int value) const;
  // [batch, heads, rows, columns] of which [batch * heads, rows, columns] is a view; -1: of none.
  int ApartSource(int flat) const;
  // The Reshape that merges the heads of [batch, heads, rows, size] to [batch, rows, columns]; -1: there is none.
  int MergeOf(int value, const ir::Dim& batch, const ir::Dim& rows, int64_t columns) const;

 private:
  const ir::Graph& graph_;
  const Matcher& match_;
};

}  // namespace cudaep::graph
