// A tensor that is moved round along its axes, as torch.roll is exported: the parts in front of and behind a position
// of an axis, joined the other way round.
#pragma once

#include <optional>

#include "graph/pass/match.h"

namespace cudaep::graph {

struct RollMatch {
  int root = -1;                     // what is moved round
  int first = -1, result = -1;       // by its first axis, and by all of them
  std::vector<int64_t> shifts = {};  // element i of an axis is that at i + shift; 0 <= shift < size
};

// Of the Concat that is the last axis' one: the whole of it, whatever is read of what is in between.
std::optional<RollMatch> MatchRoll(const ir::Graph& graph, const Matcher& match, const ir::Node& concat);

// Whether nobody reads the value but parts that the Concat with this result joins.
bool IsReadByRoll(const ir::Graph& graph, const Matcher& match, int value, int result);

}  // namespace cudaep::graph
