// Attention as one operator.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// softmax(terms(scale * Q K^T)) V becomes ONNX Attention, what is done to scores its cap and its mask; on [batch, rows,
// heads * size] where the heads are split and merged around it, so that no tensor is transposed. A row whose scores are
// all minus infinity gets NaN, as Softmax has it, or zeros where the model has a guard for that.
void FuseAttention(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
