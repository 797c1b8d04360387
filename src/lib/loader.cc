#include "lib/loader.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include "core/strings.h"
#include "lib/library_path.h"
#include "lib/search_places.h"

namespace cudaep::lib {
namespace {

std::string LastLinkerError() {
  const char* text = dlerror();
  return text == nullptr ? "unknown error of the dynamic linker" : text;
}

std::string PathOf(void* handle, std::string_view fallback) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || *map->l_name == '\0')
    return std::string(fallback);
  return map->l_name;
}

std::string Wanted(const LibrarySpec& spec) {
  if (spec.version_symbol == nullptr) return StrCat(spec.soname, " (", spec.name, ')');
  return StrCat(spec.soname, " (", spec.name, ' ', VersionText(spec.minimum_version), " or newer)");
}

// Whether the opened library is new enough; fills `loaded` then, `problem` otherwise.
bool Accept(const LibrarySpec& spec, void* handle, std::string_view place, LoadedLibrary* loaded,
            std::string* problem) {
  const std::string path = PathOf(handle, spec.soname);
  if (spec.version_symbol == nullptr) {
    *loaded = {handle, path, std::string(place), 0};
    return true;
  }
  auto version_of = reinterpret_cast<size_t (*)()>(dlsym(handle, spec.version_symbol));
  if (version_of == nullptr) {
    *problem = StrCat(path, " does not export ", spec.version_symbol);
    return false;
  }
  const size_t version = version_of();
  if (version < spec.minimum_version) {
    *problem = StrCat(path, " is version ", VersionText(version), ", which is too old");
    return false;
  }
  *loaded = {handle, path, std::string(place), version};
  return true;
}

// Tries one file or bare name; what went wrong is appended to `tried`.
bool TryOpen(const LibrarySpec& spec, const std::string& file, const Place& place, LoadedLibrary* loaded,
             std::string* tried) {
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    *tried += StrCat(" (", LastLinkerError(), ')');
    return false;
  }
  std::string problem;
  if (Accept(spec, handle, place.title, loaded, &problem)) return true;
  dlclose(handle);
  *tried += StrCat(" (", problem, ')');
  return false;
}

// Searches the folders of one place.
bool TryPlace(const LibrarySpec& spec, const Place& place, LoadedLibrary* loaded, std::string* tried) {
  *tried += StrCat("; ", place.title, ':');
  if (place.by_name) return TryOpen(spec, spec.soname, place, loaded, tried);
  if (place.folders.empty()) *tried += " none";
  for (const std::string& folder : place.folders) {
    const std::string file = StrCat(folder, '/', spec.soname);
    *tried += StrCat(' ', folder);
    if (access(file.c_str(), R_OK) == 0 && TryOpen(spec, file, place, loaded, tried)) return true;
  }
  return false;
}

}  // namespace

void StayMapped() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&StayMapped), &info) == 0) return;
  dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

std::string VersionText(size_t version) {
  return StrCat(version / 10000, '.', version / 100 % 100, '.', version % 100);
}

Result<LoadedLibrary> LoadLibrary(const LibrarySpec& spec) {
  LoadedLibrary loaded;
  if (void* handle = dlopen(spec.soname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) {
    std::string problem;
    if (Accept(spec, handle, "already loaded by the process", &loaded, &problem)) return loaded;
    dlclose(handle);
    return Status(StatusCode::kLibraryMissing,
                  StrCat(Wanted(spec), " is needed, but the process already loaded another copy: ", problem,
                         ". Load or install the newer one first: ", spec.remedy, '.'));
  }
  std::string tried = "the process itself";
  for (const Place& place : SearchPlaces(spec.wheel_folders)) {
    if (TryPlace(spec, place, &loaded, &tried)) return loaded;
  }
  return Status(StatusCode::kLibraryMissing,
                StrCat(Wanted(spec), " was not found. Searched: ", tried, ". To get it: ", spec.remedy,
                       ", or name its folder in ", kLibraryPathVariable, '.'));
}

Status BindSymbol(const LoadedLibrary& library, const char* symbol, void** target) {
  *target = dlsym(library.handle, symbol);
  if (*target != nullptr) return Status::Ok();
  return Status(StatusCode::kLibraryMissing, StrCat(library.path, " (version ", VersionText(library.version),
                                                    ") does not export ", symbol, ", which is needed."));
}

}  // namespace cudaep::lib
