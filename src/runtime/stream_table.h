// From a raw stream handle to its context: the one mapping on the path of a node.
//
// Open addressing over atomics: Find takes no lock. Add and Remove happen when streams come and go.
// Threads: all functions may be called from any thread; a context must not be removed while its stream runs nodes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "core/status.h"
#include "runtime/stream_context.h"

namespace cudaep {

class StreamTable {
 public:
  static constexpr size_t kCapacity = 1024;

  // Null when the stream is unknown.
  StreamContext* Find(device::Stream stream) const {
    for (size_t i = SlotOf(stream), probes = 0; probes < kCapacity; i = (i + 1) % kCapacity, ++probes) {
      const device::Stream key = slots_[i].key.load(std::memory_order_acquire);
      if (key == stream) [[likely]]
        return slots_[i].context.load(std::memory_order_relaxed);
      if (key == Never()) return nullptr;
    }
    return nullptr;
  }

  Status Add(StreamContext* context);
  // A no-op when another context of the same stream took its place.
  void Remove(StreamContext* context);
  // The streams that are known now.
  std::vector<device::Stream> Streams();

 private:
  // Keys that no stream has: slots never used, and slots whose stream is gone.
  static device::Stream Never() { return reinterpret_cast<device::Stream>(~uintptr_t{0}); }
  static device::Stream Gone() { return reinterpret_cast<device::Stream>(~uintptr_t{1}); }
  static size_t SlotOf(device::Stream stream) {
    return (reinterpret_cast<uintptr_t>(stream) * 0x9E3779B97F4A7C15u) >> 54;
  }

  struct Slot {
    std::atomic<device::Stream> key{Never()};
    std::atomic<StreamContext*> context{nullptr};
  };
  std::array<Slot, kCapacity> slots_;
  std::mutex mutex_;
};

}  // namespace cudaep
