// Products of codes that end in codes.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// One `MatMulIntegerToCodes`: MatMulInteger of int8 and constant weights (MultiplyCodes makes it), the scaling of its
// sums, a requantization, a bias for each column, a quantization and a table of its codes (LookUpCodes), of which all
// but the scaling and the last quantization may be missing. Up to three of one tensor and of the same sizes, without
// tables, are one node too (unless `projections` are skipped).
void FinishProducts(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
