// Finds and opens vendor libraries at run time; nothing of them is linked.
//
// Order: the copy that the process already loaded, then the places of search_places.h. A loaded copy always wins, also
// when it is too old: a second copy of such a library beside it would share the first one's sub-libraries.
// Ownership: an accepted library stays open for the life of the process.
// Threads: safe from any thread. Errors: kLibraryMissing naming file, version wanted, all places and how to get it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "core/status.h"

namespace cudaep::lib {

struct LibrarySpec {
  std::string_view name;                            // "cuDNN"
  const char* soname;                               // "libcudnn.so.9"
  const char* version_symbol;                       // size_t(): 10000 * major + 100 * minor + patch; null: not checked
  size_t minimum_version;                           // in the same encoding
  std::span<const std::string_view> wheel_folders;  // relative to site-packages
  std::string_view remedy;                          // "pip install nvidia-cudnn-cu13"
};

struct LoadedLibrary {
  void* handle = nullptr;
  std::string path;   // the file that was loaded
  std::string place;  // where it was found, for reports
  size_t version = 0;
};

Result<LoadedLibrary> LoadLibrary(const LibrarySpec& spec);

// From here on the process keeps the library that this code is in, also when its host unloads it.
void StayMapped();

// "9.19.0" for 91900.
std::string VersionText(size_t version);

// `target` gets the address of `symbol`; kLibraryMissing when the library does not export it.
Status BindSymbol(const LoadedLibrary& library, const char* symbol, void** target);

// A library's function table: filled at the first success, then read without a lock and never freed.
// A failure is not remembered, so that a library installed or named later is found by the next session.
template <class Api>
class LazyApi {
 public:
  explicit constexpr LazyApi(Status (*load)(Api*)) : load_(load) {}

  Result<const Api*> Get() {
    if (const Api* api = loaded()) return api;
    std::lock_guard lock(mutex_);
    if (const Api* api = loaded()) return api;
    auto api = std::make_unique<Api>();
    CUDAEP_RETURN_IF_ERROR(load_(api.get()));
    api_.store(api.get(), std::memory_order_release);
    return static_cast<const Api*>(api.release());
  }

  // Null before the first success.
  const Api* loaded() const { return api_.load(std::memory_order_acquire); }

 private:
  Status (*load_)(Api*);
  std::mutex mutex_;
  std::atomic<const Api*> api_{nullptr};
};

}  // namespace cudaep::lib
