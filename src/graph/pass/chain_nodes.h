// Which nodes of the model chains have, and as what terms.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "graph/ir/graph.h"
#include "ops/elementwise/chain_program.h"

namespace cudaep::graph {

// A term of a node: ops::ChainTerm with values of the graph as operands.
struct NodeTerm {
  static constexpr int kBefore = -2;  // the node's term before

  const char* function;
  std::array<int, ops::kMaxChainOperands> operands;
  std::array<float, ops::kChainNumbers> numbers = {};
};

// Nothing where the node is none of a chain's: another operator, other types, or what would have to be known is not.
// Integers are read by Cast and DequantizeLinear alone; those of 16 bits, wide unsigned ones and float64 by nobody.
std::optional<std::vector<NodeTerm>> TermsOf(const ir::Graph& graph, const ir::Node& node);

// Makes a node of codes and a table the Elementwise that looks codes up, which TermsOf knows. `lowest`: that of the
// first element.
void SetLookUp(ir::Node& node, float lowest);

}  // namespace cudaep::graph
