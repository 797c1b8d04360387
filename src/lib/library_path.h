// Folders that the user names for vendor libraries, searched before every other place.
//
// Two sources, in this order: the provider's option (SetLibraryPath) and the environment variable
// ORT_CUDA_EP_LIBRARY_PATH; each is a list of folders separated by colons.
// Threads: safe from any thread. A change matters only for libraries that are not loaded yet.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cudaep::lib {

inline constexpr const char* kLibraryPathVariable = "ORT_CUDA_EP_LIBRARY_PATH";

// Replaces the option's folders; empty text removes them.
void SetLibraryPath(std::string_view folders);

// The option's folders followed by the environment's, without empty entries.
std::vector<std::string> LibraryPath();

}  // namespace cudaep::lib
