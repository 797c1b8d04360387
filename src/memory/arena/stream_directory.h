// Finds the cache of a stream without a lock.
//
// Threads: Find from any thread; Add and Remove one at a time. What Find returns may serve another stream by the time
// it is asked; caches check that themselves and live as long as the directory is used.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "device/device.h"

namespace cudaep::memory {

class StreamCache;

class StreamDirectory {
 public:
  StreamCache* Find(device::Stream stream) const {
    const uintptr_t key = KeyOf(stream);
    for (size_t i = 0, at = Home(key); i < kProbes; ++i, at = (at + 1) % kEntries) {
      const uintptr_t found = entries_[at].key.load(std::memory_order_acquire);
      if (found == key) return entries_[at].cache.load(std::memory_order_relaxed);
      if (found == kVacant) return nullptr;
    }
    return nullptr;
  }
  // A stream that finds no room has no cache.
  void Add(device::Stream stream, StreamCache* cache) {
    const uintptr_t key = KeyOf(stream);
    for (size_t i = 0, at = Home(key); i < kProbes; ++i, at = (at + 1) % kEntries) {
      const uintptr_t found = entries_[at].key.load(std::memory_order_relaxed);
      if (found != kVacant && found != kRemoved) continue;
      entries_[at].cache.store(cache, std::memory_order_relaxed);
      entries_[at].key.store(key, std::memory_order_release);
      return;
    }
  }
  void Remove(device::Stream stream) {
    const uintptr_t key = KeyOf(stream);
    for (size_t i = 0, at = Home(key); i < kProbes; ++i, at = (at + 1) % kEntries) {
      if (entries_[at].key.load(std::memory_order_relaxed) != key) continue;
      entries_[at].key.store(kRemoved, std::memory_order_relaxed);
      return;
    }
  }

 private:
  struct Entry {
    std::atomic<uintptr_t> key{0};
    std::atomic<StreamCache*> cache{nullptr};
  };
  static constexpr size_t kEntries = 256, kProbes = 16;
  static constexpr uintptr_t kVacant = 0, kRemoved = 1;
  // The default streams are the handles 0 to 2.
  static uintptr_t KeyOf(device::Stream stream) { return ~reinterpret_cast<uintptr_t>(stream); }
  static size_t Home(uintptr_t key) { return static_cast<size_t>(key * 0x9e3779b97f4a7c15u >> 56); }

  std::array<Entry, kEntries> entries_;
};

}  // namespace cudaep::memory
