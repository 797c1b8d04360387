// Parts of tensors along their last axis, as Slice and Split make them.
#pragma once

#include "graph/pass/match.h"

namespace cudaep::graph {

// Elements [begin, end) of each row of `whole`, which has `size` of them.
struct RowPart {
  int whole = -1;
  int64_t begin = 0, end = 0, size = 0;

  bool IsHalf(int index) const { return size % 2 == 0 && begin == index * size / 2 && end == begin + size / 2; }
};

// Nothing where the value is no such part of rows of a known size.
std::optional<RowPart> MatchRowPart(const ir::Graph& graph, const Matcher& match, int value);

// Every other element of each row of `whole`, which has an even number of them: from the first or the second one on.
struct EveryOther {
  int whole = -1;
  bool is_second = false;
};

std::optional<EveryOther> MatchEveryOther(const ir::Graph& graph, const Matcher& match, int value);

}  // namespace cudaep::graph
