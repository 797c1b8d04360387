// A lock for sections of some ten nanoseconds that threads seldom want at once; works with std::lock_guard.
//
// Who finds it taken tries for a while and then lets other threads run, so that a holder that was put to sleep is not
// waited for in vain.
#pragma once

#include <atomic>
#include <thread>

namespace cudaep {

class SpinLock {
 public:
  SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void lock() noexcept {
    while (taken_.exchange(true, std::memory_order_acquire)) {
      for (int tries = 0; taken_.load(std::memory_order_relaxed); ++tries) {
        if (tries < kTries) {
          __builtin_ia32_pause();
        } else {
          std::this_thread::yield();
        }
      }
    }
  }
  bool try_lock() noexcept {
    return !taken_.load(std::memory_order_relaxed) && !taken_.exchange(true, std::memory_order_acquire);
  }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  static constexpr int kTries = 200;
  std::atomic<bool> taken_{false};
};

}  // namespace cudaep
