// Softmax between codes.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// DequantizeLinear, Softmax and QuantizeLinear, each the only reader of the one before but for the first:
// QLinearSoftmax. With DequantizeLinear, the Add of a mask and QuantizeLinear in front, as quantisers write the scores
// of an attention: QuantizedSoftmax, where nobody else reads the masked scores or their codes. Part of qdq.
void SoftmaxCodes(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
