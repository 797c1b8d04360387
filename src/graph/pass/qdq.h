// Models of QuantizeLinear and DequantizeLinear as integers: what stands between these is done on codes.
//
// In steps: constants are dequantized once, codes become signed (which is what libraries multiply), data is moved as
// codes, and products multiply them. What stays of Q and DQ is element-wise, and for chains.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

void FuseQuantized(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
