// Evaluates one node with the host operator that a compiled region would use (graph/shape/host_operator.h).
#pragma once

#include "node_run.h"

namespace cudaep::test {

// One launch. kNotSupported where there is no host operator for the node.
RunResult RunOnHost(const Node& node);

}  // namespace cudaep::test
