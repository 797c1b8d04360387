// Which nodes of a graph the provider takes, and why not the others.
#pragma once

#include <string>

#include "abi/host.h"
#include "abi/session_state.h"

namespace cudaep::abi {

// Claims nodes one by one in `support`, and reports the others with reasons at log level info.
Status ClaimNodes(const OrtGraph* graph, OrtEpGraphSupportInfo* support, const SessionState& state,
                  const std::string& ep_name, const OrtLogger* logger);

}  // namespace cudaep::abi
