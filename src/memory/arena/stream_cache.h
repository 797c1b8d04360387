// Chunks that one stream freed and will ask for again, in front of the arena's lock.
//
// A cache keeps chunks of the sizes that its stream asks for more than once between two moments of idleness (in a Run),
// in lists by exact size. So most requests of a Run are served here, whatever other threads do. What a cache holds
// counts as live in the arena's heap: it is not cut or merged. The arena takes it back when the stream is idle, and
// before it waits for a stream or grows beyond its bound.
//
// Stream rules: a chunk was freed in its stream's order and serves the same stream, so nothing needs to be known about
// the work on it. Its stamp is a point of the stream (memory/stream_order.h), for those who get it later.
//
// Threads: any function from any thread. Open and Close are called under the arena's lock. Its own lock spins: nothing
// done under it takes longer than some ten nanoseconds, and nothing calls the driver.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "device/device.h"
#include "memory/arena/chunk_heap.h"
#include "memory/stream_order.h"

namespace cudaep::memory {

// Aligned: neighbours in memory are used by different threads.
class alignas(64) StreamCache {
 public:
  // `counter`: of the points of its slot; the cache's lock is the counter's.
  explicit StreamCache(PointCounter* counter) : counter_(*counter), lock_(counter->lock()) {}

  // From now on it serves `stream`; chunks handed out in another life are not taken.
  void Open(device::Stream stream, uint32_t life);
  // It serves nobody and takes nothing; returns what it held, linked by `bin_after`, like the other functions.
  Chunk* Close();

  // A chunk for a request of `bytes` of the stream; null if there is none, which is noted.
  Chunk* Pop(device::Stream stream, size_t bytes);
  enum class Answer : uint8_t { kTaken, kRefused, kTwice };
  // Takes a chunk that is freed and gives it its stamp. kRefused: the rest is the arena's business. kTwice: it was
  // freed before.
  Answer Push(Chunk* chunk);

  // All chunks; sizes stay known.
  Chunk* PopAll();
  // The same when the stream was waited for; sizes that it asked for once or not at all since then are forgotten.
  Chunk* Idle();

  // Requests served.
  int64_t hits() const;
  // What it holds, as asked for; read without its lock.
  size_t held_bytes() const { return held_bytes_.load(std::memory_order_relaxed); }
  // While it is held, labels and marks of the stream's chunks stay as they are.
  std::unique_lock<SpinLock> Lock() const { return std::unique_lock(lock_); }

 private:
  struct Size {
    size_t bytes = 0;  // 0: vacant
    Chunk* first = nullptr;
    uint32_t requests = 0;  // since the stream was idle
    bool repeats = false;   // asked for more than once before that
  };
  static constexpr size_t kSizes = 128;
  static constexpr size_t kProbes = 4;

  Size* Find(size_t bytes);
  Chunk* PopAllLocked();

  PointCounter& counter_;
  SpinLock& lock_;
  // Everything below is guarded by lock_; so are label and mark of its stream's live chunks.
  device::Stream stream_ = nullptr;
  uint32_t life_ = 0;  // 0: closed
  int64_t hits_ = 0;
  std::array<Size, kSizes> sizes_;
  std::atomic<size_t> held_bytes_{0};  // written under lock_
};

}  // namespace cudaep::memory
