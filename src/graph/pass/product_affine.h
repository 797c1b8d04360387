// What scales and shifts each column of a product goes into its weights and bias.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// MatMul and Gemm of constant weights that nobody else reads take over BatchNormalization of constant statistics, and
// Mul by a constant of one value a column, with Add and Sub of such constants in front of these, and with Transposes
// and Reshapes that keep the columns between them; each where nothing else reads what lies between. Part of
// FoldIntoConvolutions, under the same rules for weights.
void FoldIntoProducts(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
