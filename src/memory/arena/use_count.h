// How much of an arena's memory is in use, and the most that ever was; counted by many threads without a lock.
//
// A stream's cache counts through a lease: what it gives back stays counted until it takes it up again, so that threads
// seldom write to the same line. Before a peak is counted the leases' spare use is taken back. So peaks are exact, but
// for leases that are just used by other threads, and but for peaks below `exact_from`, which may be 1 MiB too high for
// each lease.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/spin_lock.h"

namespace cudaep::memory {

class UseCount;

// The part of one user. Guarded by the user's lock, which UseCount tries to take for Settle alone.
class UseLease {
 public:
  // Both outlive the lease; and the lease outlives every use of `count`.
  UseLease(UseCount* count, SpinLock* lock);
  UseLease(const UseLease&) = delete;
  UseLease& operator=(const UseLease&) = delete;

  void Add(size_t bytes);
  void Subtract(size_t bytes);
  void Settle();

 private:
  friend class UseCount;
  static constexpr size_t kMostSpareBytes = size_t{1} << 20;

  UseCount* const count_;
  SpinLock* const lock_;
  UseLease* next_ = nullptr;
  size_t spare_ = 0;  // counted as in use, although it is not
};

class UseCount {
 public:
  explicit UseCount(size_t exact_from) : exact_from_(static_cast<int64_t>(exact_from)) {}

  // Of who holds the arena's lock.
  void AddLocked(size_t bytes) {
    const int64_t locked = locked_.load(std::memory_order_relaxed) + Signed(bytes);
    locked_.store(locked, std::memory_order_relaxed);
    CountPeak(locked + leased_.load(std::memory_order_relaxed), reserved_.load(std::memory_order_relaxed));
  }
  void SubtractLocked(size_t bytes) {
    locked_.store(locked_.load(std::memory_order_relaxed) - Signed(bytes), std::memory_order_relaxed);
  }
  // Memory of Reserve, which counts for the peak alone.
  void AddReserved(size_t bytes) {
    const int64_t reserved = reserved_.fetch_add(Signed(bytes), std::memory_order_relaxed) + Signed(bytes);
    CountPeak(Now(), reserved);
  }
  void SubtractReserved(size_t bytes) { reserved_.fetch_sub(Signed(bytes), std::memory_order_relaxed); }

  // But for AddReserved, with what leases have to spare.
  size_t now() const { return static_cast<size_t>(Now()); }
  // All of it, without what they have to spare. The arena's lock is held.
  int64_t InUse() const {
    const std::vector<std::unique_lock<SpinLock>> quiet = LockLeases();
    int64_t spare = 0;
    for (const UseLease* lease = leases_.load(std::memory_order_acquire); lease != nullptr; lease = lease->next_) {
      spare += Signed(lease->spare_);
    }
    return Now() + reserved_.load(std::memory_order_relaxed) - spare;
  }
  // The locks of all leases, for one thread at a time.
  std::vector<std::unique_lock<SpinLock>> LockLeases() const {
    std::vector<std::unique_lock<SpinLock>> locks;
    for (const UseLease* lease = leases_.load(std::memory_order_acquire); lease != nullptr; lease = lease->next_) {
      locks.emplace_back(*lease->lock_);
    }
    return locks;
  }
  // Takes back what leases have to spare, but for those just in use; returns how much it was.
  int64_t Settle() {
    int64_t spare = 0;
    for (UseLease* lease = leases_.load(std::memory_order_acquire); lease != nullptr; lease = lease->next_) {
      const std::unique_lock lock(*lease->lock_, std::try_to_lock);
      if (!lock.owns_lock()) continue;
      spare += Signed(lease->spare_);
      lease->Settle();
    }
    return spare;
  }
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  // Of now(), since the last ResetRecentPeak.
  size_t recent_peak() const { return static_cast<size_t>(recent_peak_.load(std::memory_order_relaxed)); }
  void ResetRecentPeak() {
    Settle();
    recent_peak_.store(Now(), std::memory_order_relaxed);
  }

 private:
  friend class UseLease;

  static int64_t Signed(size_t bytes) { return static_cast<int64_t>(bytes); }

  int64_t Now() const { return locked_.load(std::memory_order_relaxed) + leased_.load(std::memory_order_relaxed); }
  void AddLeased(size_t bytes) {
    const int64_t leased = leased_.fetch_add(Signed(bytes), std::memory_order_relaxed) + Signed(bytes);
    CountPeak(locked_.load(std::memory_order_relaxed) + leased, reserved_.load(std::memory_order_relaxed));
  }
  void SubtractLeased(size_t bytes) { leased_.fetch_sub(Signed(bytes), std::memory_order_relaxed); }

  void CountPeak(int64_t now, int64_t reserved) {
    const bool is_peak =
        now > recent_peak_.load(std::memory_order_relaxed) || now + reserved > peak_.load(std::memory_order_relaxed);
    if (!is_peak) return;
    if (now > exact_from_) now -= Settle();
    Raise(&recent_peak_, now);
    Raise(&peak_, now + reserved);
  }
  static void Raise(std::atomic<int64_t>* peak, int64_t value) {
    int64_t seen = peak->load(std::memory_order_relaxed);
    while (seen < value && !peak->compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
    }
  }

  const int64_t exact_from_;
  std::atomic<int64_t> locked_{0}, leased_{0}, reserved_{0}, peak_{0}, recent_peak_{0};
  std::atomic<UseLease*> leases_{nullptr};
};

inline UseLease::UseLease(UseCount* count, SpinLock* lock) : count_(count), lock_(lock) {
  next_ = count->leases_.load(std::memory_order_relaxed);
  while (!count->leases_.compare_exchange_weak(next_, this, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

inline void UseLease::Add(size_t bytes) {
  const size_t own = std::min(spare_, bytes);
  spare_ -= own;
  if (own < bytes) count_->AddLeased(bytes - own);
}

inline void UseLease::Subtract(size_t bytes) {
  spare_ += bytes;
  if (spare_ > kMostSpareBytes) Settle();
}

inline void UseLease::Settle() {
  if (spare_ != 0) count_->SubtractLeased(spare_);
  spare_ = 0;
}

}  // namespace cudaep::memory
