// Where the operators with deliberate bugs are registered.
#pragma once

namespace cudaep::test {

inline constexpr const char* kBrokenDomain = "test.broken";

}  // namespace cudaep::test
