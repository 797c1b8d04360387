// Bags of embeddings: segments of rows that are reduced, with the lookup of the rows.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// SegmentReduce of ops::kFusedDomain, which regions make of Loops (graph/pass/segment_match.h), of rows that a Gather
// takes from a table, perhaps times a weight a row: it looks them up itself, and they are never written. Where
// somebody else reads the rows the lookup stays. So go a list of ends that are the next starts, and one of starts with
// the length of the list behind them, which the host knows from dimensions.
void FuseEmbeddingBags(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
