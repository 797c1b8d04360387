// Convolutions of images of one pixel, as in squeeze-and-excitation, are products of as many rows as there are images.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// Part of the pass `short_products`: makes `MatMul` of ops::kFusedDomain of channels-last convolutions of 16 bits whose
// image and result are stated to be of one pixel, with constant weights of one tap. The weights, [columns, inner], are
// what such a product takes as they are.
void MultiplyPixels(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
