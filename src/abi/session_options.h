// The provider's options of one session, out of the host's session configuration.
#pragma once

#include <string>

#include "abi/host.h"
#include "runtime/options_table.h"

namespace cudaep::abi {

// Hosts store provider options under a prefix: `ep.<provider name in lower case>.` up to 1.24, `ep.cuda.` later. Both
// are read; the same option given under both with different values is an error. Keys keep their case.
Result<OptionList> ReadSessionOptions(const OrtSessionOptions* options, const std::string& ep_name);

}  // namespace cudaep::abi
