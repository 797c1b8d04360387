#include "graph/pass/qdq.h"

#include "graph/pass/qdq_attention.h"
#include "graph/pass/qdq_codes.h"
#include "graph/pass/qdq_convolutions.h"
#include "graph/pass/qdq_moves.h"
#include "graph/pass/qdq_norms.h"
#include "graph/pass/qdq_pools.h"
#include "graph/pass/qdq_products.h"
#include "graph/pass/qdq_softmax.h"
#include "graph/pass/qdq_transposes.h"

namespace cudaep::graph {

void FuseQuantized(ir::Graph& graph, const PassContext& context) {
  DequantizeVectors(graph);
  MakeCodesSigned(graph);
  MoveCodes(graph, context);
  RemoveDeadNodes(graph);
  MultiplyCodes(graph, context);
  ConvolveCodes(graph, context);
  PoolCodes(graph, context);
  RemoveDeadNodes(graph);
  MultiplyTransposed(graph, context);
  SoftmaxCodes(graph, context);
  RemoveDeadNodes(graph);
  AttendCodes(graph, context);
  NormalizeCodes(graph, context);
  RemoveDeadNodes(graph);
  DequantizeWeights(graph);
}

}  // namespace cudaep::graph
