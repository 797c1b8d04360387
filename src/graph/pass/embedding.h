// Embeddings of tokens: rows of tables, added up and normalised.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// Up to three summands, each a Gather of rows or a constant that repeats over the tokens, become Embedding of
// ops::kFusedDomain: with the normalisation of their sum, which may be of one Gather alone, or without. Who else reads
// the sum gets it from there.
void FuseEmbeddings(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
