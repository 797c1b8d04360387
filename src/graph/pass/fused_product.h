// MatMul and Gemm as `MatMul` of ops::kFusedDomain, which has a place for a bias and one for a residual.
#pragma once

#include "graph/pass/rewrite.h"

namespace cudaep::graph {

enum ProductInput : size_t { kProductA, kProductB, kProductBias, kProductResidual };

// The node alone; nothing for other operators, operands that are no matrices, and a Gemm whose C has no place.
std::optional<ir::Node> AsFusedProduct(const Rewriter& rewrite, int index);

// Whether a product (MatMul, Gemm, or one with their attributes) is A times B: nothing of A is turned, no batches of B,
// nothing scaled.
bool IsPlainProduct(const ir::Node& node);

// Puts a summand where a bias or a residual goes, if that is free. `product` is the value whose dimensions count.
bool AddToProduct(const ir::Graph& graph, int summand, int product, ir::Node& fused);

}  // namespace cudaep::graph
