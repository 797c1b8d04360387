// Library handles that outlive their stream: creating one costs milliseconds and megabytes, so they are reused.
//
// One pool a library and device ordinal; at most kMaxIdle idle handles are kept. What a handle takes of the device is
// measured when it is made and charged to the budget of whoever holds it; idle handles are charged to nobody.
// Threads: all functions may be called from any thread; a lease belongs to one thread at a time.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "memory/device_memory.h"

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
  using Create = Result<std::unique_ptr<Handle>> (*)();

  HandlePool(const char* library, Create create) : library_(library), create_(create) {}

  // An idle handle of the memory's device, or a new one; charged to the memory's budget. kLibraryMissing where the
  // library cannot be loaded. The memory limit may be exceeded once; the log says so.
  Result<MeasuredHandle<Handle>> Take(memory::DeviceMemory& memory);
  void Return(memory::DeviceMemory& memory, MeasuredHandle<Handle> handle);

  // Handles made since the process began, on all devices.
  uint64_t created() const { return created_.load(std::memory_order_relaxed); }

 private:
  MeasuredHandle<Handle> TakeIdle(int ordinal);

  const char* const library_;
  const Create create_;
  std::atomic<uint64_t> created_{0};
  std::mutex mutex_;
  std::map<int, std::vector<MeasuredHandle<Handle>>> idle_;  // guarded by mutex_
};

// A handle while somebody uses it.
template <class Handle>
class HandleLease {
 public:
  HandleLease() = default;
  HandleLease(HandlePool<Handle>& pool, std::shared_ptr<memory::DeviceMemory> memory, MeasuredHandle<Handle> handle)
      : pool_(&pool), memory_(std::move(memory)), handle_(std::move(handle)) {}
  ~HandleLease() { GiveBack(); }
  HandleLease(HandleLease&& other) noexcept = default;
  HandleLease& operator=(HandleLease&& other) noexcept {
    if (this == &other) return *this;
    GiveBack();
    pool_ = other.pool_;
    memory_ = std::move(other.memory_);
    handle_ = std::move(other.handle_);
    return *this;
  }

  Handle* get() const { return handle_.handle.get(); }

 private:
  void GiveBack() {
    if (handle_.handle != nullptr) pool_->Return(*memory_, std::move(handle_));
  }

  HandlePool<Handle>* pool_ = nullptr;
  std::shared_ptr<memory::DeviceMemory> memory_;
  MeasuredHandle<Handle> handle_;
};

}  // namespace cudaep
