// From operator rows to the host's kernel registry.
#pragma once

#include <string>

#include "abi/host.h"

namespace cudaep::abi {

// A registry with a definition for every row. Rows that a host cannot take (a type or constraint it does not know) are
// left out with one log line each. The caller releases the registry.
Result<OrtKernelRegistry*> BuildKernelRegistry(const std::string& ep_name);

}  // namespace cudaep::abi
