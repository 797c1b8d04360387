// Products of the same tensor with constant weights, which are as well made by one product with all weights.
#pragma once

#include <span>

#include "graph/pass/rewrite.h"

namespace cudaep::graph {

// activation(x * weights + bias).
struct ProductPart {
  int x = -1, weights = -1, bias = -1;  // no bias: -1
  int64_t columns = 0;
  std::string activation = {};  // empty: none
};

// Of a product of which nobody else reads more than dimensions.
std::optional<ProductPart> MatchProductPart(const Rewriter& rewrite, int value);

// Constants with the weights and biases of all parts side by side, named after the first; no bias: -1.
int JoinedWeights(ir::Graph& graph, std::span<const ProductPart> parts);
int JoinedBias(ir::Graph& graph, std::span<const ProductPart> parts);

// The same of the constants that `weights` are, of any type and as many rows; parts without one have zeros.
int JoinedConstants(ir::Graph& graph, std::span<const ProductPart> parts);

// The product that makes all parts side by side, as a new value; without their activations.
ir::Node JoinedProduct(ir::Graph& graph, std::span<const ProductPart> parts);

}  // namespace cudaep::graph
