// A lock for sections that mostly take some ten nanoseconds; works with std::lock_guard and std::unique_lock.
//
// Taking and leaving it costs one atomic exchange. Who finds it taken tries for a while, then lets other threads run,
// and at last sleeps between tries, so that a holder that calls the driver or was put to sleep is waited for without a
// busy core.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace cudaep {

class SpinLock {
 public:
  SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void lock() noexcept {
    while (taken_.exchange(true, std::memory_order_acquire)) Wait();
  }
  bool try_lock() noexcept {
    return !taken_.load(std::memory_order_relaxed) && !taken_.exchange(true, std::memory_order_acquire);
  }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  static constexpr int kPauses = 200, kYields = 200;
  static constexpr std::chrono::microseconds kSleep{20};

  static void Pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");  // some ten cycles, unlike `yield`, which most cores ignore
#endif
  }
  // Until it looks free.
  void Wait() const noexcept {
    for (int tries = 0; taken_.load(std::memory_order_relaxed); ++tries) {
      if (tries < kPauses) {
        Pause();
      } else if (tries < kPauses + kYields) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(kSleep);
      }
    }
  }
  std::atomic<bool> taken_{false};
};

}  // namespace cudaep
