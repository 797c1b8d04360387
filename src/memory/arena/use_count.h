// How much of an arena's memory is in use, and the most that ever was; counted by many threads without a lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cudaep::memory {

class UseCount {
 public:
  void Add(size_t bytes) {
    const int64_t now =
        now_.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed) + static_cast<int64_t>(bytes);
    Raise(&recent_peak_, now);
    Raise(&peak_, now + reserved_.load(std::memory_order_relaxed));
  }
  void Subtract(size_t bytes) { now_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed); }
  // Memory of Reserve, which counts for the peak alone.
  void AddReserved(size_t bytes) {
    const int64_t reserved =
        reserved_.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed) + static_cast<int64_t>(bytes);
    Raise(&peak_, now_.load(std::memory_order_relaxed) + reserved);
  }
  void SubtractReserved(size_t bytes) { reserved_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed); }

  size_t now() const { return static_cast<size_t>(now_.load(std::memory_order_relaxed)); }
  size_t reserved() const { return static_cast<size_t>(reserved_.load(std::memory_order_relaxed)); }
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  // Of Add alone, since the last ResetRecentPeak.
  size_t recent_peak() const { return static_cast<size_t>(recent_peak_.load(std::memory_order_relaxed)); }
  void ResetRecentPeak() { recent_peak_.store(now_.load(std::memory_order_relaxed), std::memory_order_relaxed); }

 private:
  static void Raise(std::atomic<int64_t>* peak, int64_t value) {
    int64_t seen = peak->load(std::memory_order_relaxed);
    while (seen < value && !peak->compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
    }
  }
  std::atomic<int64_t> now_{0}, reserved_{0}, peak_{0}, recent_peak_{0};
};

}  // namespace cudaep::memory
