// Library handles that outlive their stream: creating one costs milliseconds and megabytes, so they are reused.
//
// One pool a library and device ordinal; at most kMaxIdle idle handles are kept. What a handle takes of the device is
// measured when it is made and charged to the budget of whoever holds it; idle handles are charged to nobody.
// Threads: all functions may be called from any thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace cudaep {

// A handle, and the device memory that was gone after it had been made.
template <class Handle>
struct MeasuredHandle {
  std::unique_ptr<Handle> handle;
  size_t bytes = 0;
};

template <class Handle>
class HandlePool {
 public:
  static constexpr size_t kMaxIdle = 8;

  // An idle handle of the device, or none when a new one has to be made.
  MeasuredHandle<Handle> Take(int ordinal) {
    std::lock_guard lock(mutex_);
    auto& idle = idle_[ordinal];
    if (idle.empty()) return {};
    MeasuredHandle<Handle> handle = std::move(idle.back());
    idle.pop_back();
    return handle;
  }

  void Return(int ordinal, MeasuredHandle<Handle> handle) {
    std::lock_guard lock(mutex_);
    auto& idle = idle_[ordinal];
    if (handle.handle != nullptr && idle.size() < kMaxIdle) idle.push_back(std::move(handle));
  }

  void Clear() {
    std::lock_guard lock(mutex_);
    idle_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<MeasuredHandle<Handle>>> idle_;
};

}  // namespace cudaep
