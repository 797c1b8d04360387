// Numbers of constants, for passes.
#pragma once

#include "graph/ir/graph.h"

namespace cudaep::graph {

// Elements of a constant of a float type; nothing for other values.
std::optional<std::vector<double>> NumbersOf(const ir::Graph& graph, int value);

// The only element.
std::optional<double> ScalarOf(const ir::Graph& graph, int value);

// Rounded to `type`, a float type.
ops::HostTensor MakeNumbers(DataType type, const Shape& dims, const std::vector<double>& numbers);

}  // namespace cudaep::graph
