// Gated feed-forward layers.
#pragma once

#include "graph/pass/rewrite.h"

namespace cudaep::graph {

// A product that ends with activation(a) * b: where a and b are products of the same tensor with constant weights, one
// product and Gated; where they are the halves of the rows of a tensor, Gated of that.
void MergeGated(const Rewriter& rewrite, int index);

}  // namespace cudaep::graph
