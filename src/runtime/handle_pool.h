// Library handles that outlive their stream: creating one costs milliseconds and megabytes, so they are reused.
//
// One pool a library and device ordinal; at most kMaxIdle idle handles are kept.
// Threads: all functions may be called from any thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace cudaep {

template <class Handle>
class HandlePool {
 public:
  static constexpr size_t kMaxIdle = 8;

  // An idle handle of the device, or null when a new one has to be made.
  std::unique_ptr<Handle> Take(int ordinal) {
    std::lock_guard lock(mutex_);
    auto& idle = idle_[ordinal];
    if (idle.empty()) return nullptr;
    std::unique_ptr<Handle> handle = std::move(idle.back());
    idle.pop_back();
    return handle;
  }

  void Return(int ordinal, std::unique_ptr<Handle> handle) {
    std::lock_guard lock(mutex_);
    auto& idle = idle_[ordinal];
    if (handle != nullptr && idle.size() < kMaxIdle) idle.push_back(std::move(handle));
  }

  void Clear() {
    std::lock_guard lock(mutex_);
    idle_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<std::unique_ptr<Handle>>> idle_;
};

}  // namespace cudaep
