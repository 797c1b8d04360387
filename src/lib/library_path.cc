#include "lib/library_path.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>

namespace cudaep::lib {
namespace {

struct Option {
  std::mutex mutex;
  std::string folders;
};

// Never destroyed: libraries may still be looked up while static destructors run.
Option& ThePathOption() {
  static Option* option = new Option;
  return *option;
}

void AppendFolders(std::string_view list, std::vector<std::string>* folders) {
  while (!list.empty()) {
    const size_t end = std::min(list.find(':'), list.size());
    if (end != 0) folders->emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
}

}  // namespace

void SetLibraryPath(std::string_view folders) {
  Option& option = ThePathOption();
  std::lock_guard lock(option.mutex);
  option.folders = folders;
}

std::vector<std::string> LibraryPath() {
  std::vector<std::string> folders;
  {
    Option& option = ThePathOption();
    std::lock_guard lock(option.mutex);
    AppendFolders(option.folders, &folders);
  }
  if (const char* variable = std::getenv(kLibraryPathVariable)) AppendFolders(variable, &folders);
  return folders;
}

}  // namespace cudaep::lib
