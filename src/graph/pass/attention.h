// Attention as one operator.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// softmax(scale * Q K^T + mask) V becomes ONNX Attention; on [batch, rows, heads * size] where the heads are split and
// merged around it, so that no tensor is transposed. A row whose scores are all minus infinity gets zeros, which
// Softmax makes NaN.
void FuseAttention(ir::Graph& graph, const PassContext& context);

// Attention of three products of the same tensor with constant weights becomes com.microsoft's Attention, which makes
// one product with all three weights side by side.
void MergeProjections(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
