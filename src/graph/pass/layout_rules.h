// How nodes read and make channels-last images: one table of operators.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// A node that does the same with its images' channels last. Its inputs and outputs that are images still are the
// model's values; others, as constants of one value a channel, are in order already.
struct TurnedNode {
  ir::Node node;
  std::vector<size_t> images;         // of the inputs; of equal rank. None: it has one of its own (`before`)
  bool makes_images = true;           // otherwise the results are the same in both layouts
  bool gains = false;                 // a convolution that turns its tensors by itself
  std::vector<ir::Node> before = {};  // what is made for it; reads the model's values
};

// Nothing for a node that has no channels-last form, no kernel for it, or that is slower in it. Constants that it makes
// belong to the graph; those of a node that stays as it is have no reader.
std::optional<TurnedNode> TurnNode(ir::Graph& graph, const ir::Node& node, const PassContext& context);

}  // namespace cudaep::graph
