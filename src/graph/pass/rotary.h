// Rotation of heads by their position as one operator.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// x * cos + turned(x) * sin becomes RotaryEmbedding, which reads cosines and sines as the model has them; also where
// only the first elements of each row are rotated and the rest is joined to them. Turned is x as (-second half, first
// half), or each pair of neighbours (a, b) as (-b, a).
void FuseRotary(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
