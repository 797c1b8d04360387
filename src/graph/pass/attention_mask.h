// The mask of attention, of what models do to scores.
#pragma once

#include <vector>

#include "graph/pass/attention_match.h"

namespace cudaep::graph {

// The nodes that make one mask of the terms, or of that of windows and the one beside it, and none where there is one
// already: core.mask. They read nothing that the scores depend on, so that masks of constants stay what is computed
// once.
std::vector<ir::Node> MakeMask(const Rewriter& rewrite, AttentionCore& core);

}  // namespace cudaep::graph
