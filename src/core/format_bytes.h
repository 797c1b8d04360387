// Byte counts for people: "512 B", "1.5 MiB", "139.8 GiB".
#pragma once

#include <cstddef>
#include <string>

namespace cudaep {

// One decimal above a kibibyte, none where it is zero.
std::string FormatBytes(size_t bytes);

}  // namespace cudaep
