// Attention between codes. Part of qdq.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// QuantizedMatMul, a multiplication by a number between codes, QuantizedSoftmax with a mask by key, or QLinearSoftmax,
// and QuantizedMatMul (MultiplyTransposed and SoftmaxCodes make them), in heads of at most 64 elements: one
// `QuantizedAttention`, which keeps scores and shares on the chip.
void AttendCodes(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
