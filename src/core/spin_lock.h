// A lock for sections that take some ten nanoseconds; works with std::lock_guard and std::unique_lock.
//
// Taking and leaving it costs one atomic exchange. Who finds it taken tries for a while, then lets other threads run,
// and at last sleeps between tries, for the case that the holder was put to sleep. Nothing that may take longer belongs
// under it, above all no driver call: in builds for the simulated device each thread counts the locks it holds, and the
// device refuses calls of a thread that holds one.
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
    Count(1);
  }
  bool try_lock() noexcept {
    if (taken_.load(std::memory_order_relaxed) || taken_.exchange(true, std::memory_order_acquire)) return false;
    Count(1);
    return true;
  }
  void unlock() noexcept {
    Count(-1);
    taken_.store(false, std::memory_order_release);
  }

#ifdef CUDAEP_SIMULATED_DEVICE
  // Of the calling thread.
  static int held() noexcept { return held_; }
#endif

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

#ifdef CUDAEP_SIMULATED_DEVICE
  static void Count(int change) noexcept { held_ += change; }
  static inline thread_local constinit int held_ = 0;
#else
  static void Count(int) noexcept {}
#endif

  std::atomic<bool> taken_{false};
};

}  // namespace cudaep
