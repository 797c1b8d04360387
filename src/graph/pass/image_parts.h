// Images side by side in one, each made where it lies there and read from there.
#pragma once

#include "graph/pass/pass.h"

namespace cudaep::graph {

// Concat of channels of channels-last images: convolutions that make its parts write them where the result has them,
// and those that read the parts too read them there, as their input or as what they add. So do those that read pieces
// which Split or Slice have of one and which are all joined again, in their order, as cross-stage blocks have them.
// What others make is copied there together. Convolutions whose parts are read by anything else stay as they are, and
// those without an activation that engines are compiled for (ops::CompilesFor).
void PlaceImageParts(ir::Graph& graph, const PassContext& context);

}  // namespace cudaep::graph
