// The registered rows as JSON, for tests and the generated support matrix.
#pragma once

#include <string>

namespace cudaep::test {

// A list of objects: kind, domain, op, since, until, types ({constraint: [type codes]}), host_inputs, host_outputs,
// aliases and in_place (lists of [input, output]).
std::string RegistryJson();

}  // namespace cudaep::test
