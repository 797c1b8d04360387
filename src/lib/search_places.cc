#include "lib/search_places.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>

#include "core/strings.h"
#include "lib/library_path.h"

namespace cudaep::lib {
namespace {

void AppendUnique(std::string folder, std::vector<std::string>* folders) {
  if (folder.empty() || std::find(folders->begin(), folders->end(), folder) != folders->end()) return;
  folders->push_back(std::move(folder));
}

std::string_view Parent(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

// The folder up to and including its first component named `name`; empty when there is none.
std::string_view UpTo(std::string_view path, std::string_view name) {
  const std::string inner = StrCat('/', name, '/');
  const size_t at = path.find(inner);
  return at == std::string_view::npos ? std::string_view() : path.substr(0, at + inner.size() - 1);
}

struct LoadedFolders {
  std::vector<std::string> packages;  // site-packages folders that something was loaded from
  std::vector<std::string> cuda;      // folders of libraries that look like CUDA's own
};

int CollectFolders(dl_phdr_info* info, size_t, void* state) {
  auto* folders = static_cast<LoadedFolders*>(state);
  const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  for (const char* name : {"site-packages", "dist-packages"}) {
    AppendUnique(std::string(UpTo(path, name)), &folders->packages);
  }
  const std::string_view folder = Parent(path);
  const std::string_view file = folder.empty() ? std::string_view() : path.substr(folder.size() + 1);
  for (const char* prefix : {"libcudart.so", "libcublas", "libcudnn", "libnvrtc.so", "libcufft.so"}) {
    if (file.starts_with(prefix)) AppendUnique(std::string(folder), &folders->cuda);
  }
  return 0;
}

// Ancestors of the folder this library lies in: a wheel's library lies a few levels below site-packages.
void AppendOwnAncestors(std::vector<std::string>* packages) {
  constexpr int kLevels = 4;
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&AppendOwnAncestors), &info) == 0 || info.dli_fname == nullptr) return;
  std::string_view folder = Parent(info.dli_fname);
  for (int level = 0; level < kLevels && !folder.empty(); ++level, folder = Parent(folder)) {
    AppendUnique(std::string(folder), packages);
  }
}

std::vector<std::string> ToolkitFolders() {
  std::vector<std::string> folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* root = std::getenv(variable);
    if (root != nullptr && *root != '\0') AppendUnique(StrCat(std::string_view(root), "/lib64"), &folders);
  }
  AppendUnique("/usr/local/cuda/lib64", &folders);
  return folders;
}

}  // namespace

std::vector<Place> SearchPlaces(std::span<const std::string_view> wheel_folders) {
  LoadedFolders loaded;
  AppendOwnAncestors(&loaded.packages);
  dl_iterate_phdr(CollectFolders, &loaded);

  Place wheels{"Python wheels", {}};
  for (const std::string& package : loaded.packages) {
    for (std::string_view folder : wheel_folders) AppendUnique(StrCat(package, '/', folder), &wheels.folders);
  }
  std::vector<Place> places;
  places.push_back({StrCat("library path option and ", kLibraryPathVariable), LibraryPath()});
  places.push_back(std::move(wheels));
  places.push_back({"folders of loaded CUDA libraries", std::move(loaded.cuda)});
  places.push_back({"LD_LIBRARY_PATH and the system's folders", {}, true});
  places.push_back({"CUDA toolkit", ToolkitFolders()});
  return places;
}

}  // namespace cudaep::lib
