// The graph inside a Loop of the host's, as one graph of our own.
#pragma once

#include "abi/host.h"
#include "graph/pass/segment_match.h"
#include "runtime/settings.h"

namespace cudaep::abi {

// Ifs of one output are taken apart: nodes of both branches stand before the node, which reads the condition and what
// either branch gives. kNotSupported for bodies that have other graphs inside, or more nodes than a Loop over segments.
Result<graph::LoopBody> ReadLoopBody(const OrtNode* loop, const Settings& settings);

}  // namespace cudaep::abi
