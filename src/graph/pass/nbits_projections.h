// Queries, keys and values by three products with weights of few bits (MatMulNBits): one product with all columns,
// which com.microsoft's GroupQueryAttention reads as a whole (Fusion::kProjections).
#pragma once

#include "graph/pass/rewrite.h"

namespace cudaep::graph {

// At an attention.
void JoinNBitsProjections(const Rewriter& rewrite, int index);

}  // namespace cudaep::graph
