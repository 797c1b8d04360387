// Numbers of constants.
#pragma once

#include "graph/ir/graph.h"

namespace cudaep::graph::ir {

// Elements of a constant of a float type; nothing for other values.
std::optional<std::vector<double>> NumbersOf(const Graph& graph, int value);

// The only element.
std::optional<double> ScalarOf(const Graph& graph, int value);

// Elements of a constant of int64 or int32; nothing for other values.
std::optional<std::vector<int64_t>> IntsOf(const Graph& graph, int value);

// Rounded to `type`, a float type.
ops::HostTensor MakeNumbers(DataType type, const Shape& dims, const std::vector<double>& numbers);

}  // namespace cudaep::graph::ir
