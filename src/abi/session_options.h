// The provider's options out of the host's configuration: those of one session, and those of the environment.
//
// Keys keep their case. Where two prefixes give one option different values, the one with the provider's name wins and
// the log has a warning that names both.
#pragma once

#include <string>

#include "abi/host.h"
#include "runtime/options_table.h"

namespace cudaep::abi {

// Hosts store provider options under a prefix: `ep.<provider name in lower case>.` up to 1.24, `ep.cuda.` later. Both
// are read.
Result<OptionList> ReadSessionOptions(const OrtSessionOptions* options, const std::string& ep_name);

// Whether the host is asked for a model of precompiled nodes (EPContext).
inline constexpr const char* kContextEnableKey = "ep.context_enable";
bool MakesContextModel(const OrtSessionOptions* options);

// Whether a file tells the host which node goes to which stream, by name: it refuses a graph with others.
inline constexpr const char* kNodePartitionKey = "session.node_partition_config_file";
bool PlacesNodesOnStreams(const OrtSessionOptions* options);

// The entries `ep_factory.<name>.arena.*`, for the provider's and the registration name: what shared allocators and
// sessions start from. Anything else there belongs to nobody and is left alone.
Result<OptionList> ReadEnvironmentOptions(const std::string& ep_name, const std::string& registration_name);

// What an application or the host passes with the request for a shared allocator or a stream; null is none.
OptionList ReadPlainOptions(const OrtKeyValuePairs* options);

}  // namespace cudaep::abi
