// Which steps a recipe's calls may leave out, once what others read of theirs is kept (graph/exec/kept_results.h).
#pragma once

#include "graph/exec/recipe.h"

namespace cudaep::graph {

struct OnceSteps {
  std::vector<Recipe::Runs> steps;  // of each
  std::vector<uint8_t> is_kept;     // of each value: a step that runs once makes it, and one of every call reads it

  bool IsKept(int value) const { return is_kept[static_cast<size_t>(value)] != 0; }
};

// Of the steps that are marked, those whose plans replay run once. Results that are larger than what may be kept are
// made in every call, from kept ones.
OnceSteps FindOnce(const Program& program, const std::vector<Recipe::Value>& values,
                   const std::vector<Recipe::Step>& steps);

}  // namespace cudaep::graph
