// Parts of one tensor that are joined again in another order.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// Concat of the two parts of a tensor in the other order, along one axis after the other, as torch.roll is written:
// Roll, with the Transposes and Reshapes in front of it and behind it, as windows have them. Concat of every n-th
// position of an axis, from each first one on: Reshape and Transpose.
void JoinParts(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
