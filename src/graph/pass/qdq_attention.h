// Attention between codes. Part of qdq.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// QuantizedMatMul or QLinearMatMul, a multiplication by a positive number between codes, QuantizedSoftmax with a mask
// by key, or QLinearSoftmax, and another product (MultiplyTransposed and SoftmaxCodes make them), of rank 4 and in
// heads of whole 16 and at most 64 elements: one `QuantizedAttention`, which keeps scores and shares on the chip. The
// multiplication and the mask may be missing.
void AttendCodes(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
