// Attention with what decoders have around it.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// Attention of queries, keys and values whose heads are turned to the front, which may be normalised and rotated before
// and appended to past ones, and whose result is turned back, becomes the regions' own Attention, which
// reads and writes all of it as it lies. Keys and values that others read too, as the present ones, it writes for them.
void FuseDecoderAttention(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
