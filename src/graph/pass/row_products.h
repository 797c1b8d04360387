// Products of rows, whichever order the rows have.
#pragma once

#include "graph/pass/rewrite.h"

namespace cudaep::graph {

// Part of the pass `views`. A Gemm of rows that were one dimension for it alone takes them as they are. The first two
// dimensions of [tokens, batch, size] are turned behind a product where others turn its result again, or before it
// where what it reads was turned already: one Transpose is left of two.
void TurnProductsOfRows(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
