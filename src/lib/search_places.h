// Where vendor libraries are looked for when the process has not loaded them, in order.
//
// Pure look-ups in the file system and in the list of loaded objects; nothing is opened here.
// Threads: safe from any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cudaep::lib {

struct Place {
  std::string title;                 // for error texts, e.g. "Python wheels"
  std::vector<std::string> folders;  // in order
  bool by_name = false;  // ask the dynamic linker for the bare name instead (LD_LIBRARY_PATH and its defaults)
};

// The user's folders, the `nvidia-*` wheels, folders of loaded CUDA libraries, the dynamic linker, the toolkit.
// `wheel_folders` are relative to a site-packages folder, e.g. "nvidia/cudnn/lib".
std::vector<Place> SearchPlaces(std::span<const std::string_view> wheel_folders);

}  // namespace cudaep::lib
