// The product's tables as JSON, for tests and generated pages: registered rows, options.
#pragma once

#include <string>

namespace cudaep::test {

// A list of objects: kind, domain, op, since, until, types ({constraint: [type codes]}), host_inputs, host_outputs,
// aliases and in_place (lists of [input, output]).
std::string RegistryJson();

// The options table: objects with name, accepts, default, doc, kind ("ours", "upstream", "ignored").
std::string OptionsJson();

}  // namespace cudaep::test
