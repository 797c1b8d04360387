// What a graph of the host's holds, as lists.
#pragma once

#include <vector>

#include "abi/host.h"

namespace cudaep::abi {

Result<std::vector<const OrtNode*>> NodesOf(const OrtGraph* graph);
Result<std::vector<const OrtValueInfo*>> InputsOf(const OrtGraph* graph);
Result<std::vector<const OrtValueInfo*>> OutputsOf(const OrtGraph* graph);  // null: absent
Result<std::vector<const OrtValueInfo*>> InitializersOf(const OrtGraph* graph);

}  // namespace cudaep::abi
