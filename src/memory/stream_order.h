// Who may have memory that was freed on a stream: how far the streams that use an allocator's memory have got, and
// which of them wait for which.
//
// Each known stream has a slot and counts points: a free, a queued copy. A point is past when all work queued before it
// is known to be done: somebody has waited (Mark, Reached), an event recorded at the point or later was seen to be
// reached (Settle, Poll), or the stream is gone. To count costs nothing; Settle is one event record for all points of
// the stream so far. What is not past may still be used by a stream that was made to wait for it (Order).
//
// Capture: nothing is recorded on a capturing stream. What was to be settled then, or was refused by the driver, is
// settled by the next Poll that can.
// Threads: guarded by the owner's lock, but for the counters. Driver calls need the device to be current and the
// thread's capture mode relaxed (memory/relaxed_capture.h).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/spin_lock.h"
#include "core/status.h"
#include "device/device.h"
#include "memory/allocator.h"

namespace cudaep::memory {

// Whether `stream` is capturing; one that cannot be asked is taken to be.
bool IsCapturing(device::Stream stream);

// Points of a stream so far. Counted under its lock, by any thread, read without. What is queued on the stream after it
// was read comes after the work before all of them.
class PointCounter {
 public:
  SpinLock& lock() { return lock_; }
  uint64_t points() const { return points_.load(std::memory_order_acquire); }
  uint64_t NextLocked() {
    points_.store(points_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    return points_.load(std::memory_order_relaxed);
  }

 private:
  SpinLock lock_;
  std::atomic<uint64_t> points_{0};
};

class StreamOrder {
 public:
  using Slot = uint32_t;
  static constexpr Slot kNobody = 0;  // no stream's
  // Shared, so that one thread can wait for it without the lock.
  using SharedEvent = std::shared_ptr<device::UniqueEvent>;
  struct Point {
    Slot slot = kNobody;  // of nobody it is past
    uint32_t life = 0;    // of the stream: slots and handles are used again
    uint64_t sequence = 0;
  };

  StreamOrder() { lines_.push_back(std::make_unique<Line>()); }

  // kNobody for a stream that is not known.
  Slot Find(device::Stream stream) const;
  Slot Add(device::Stream stream);
  Slot slots() const { return static_cast<Slot>(lines_.size()); }
  bool is_used(Slot slot) const { return lines_[slot]->life != 0; }
  device::Stream stream(Slot slot) const { return lines_[slot]->stream; }
  uint32_t life(Slot slot) const { return lines_[slot]->life; }
  // The slot's own; its address stays.
  PointCounter& counter(Slot slot) { return lines_[slot]->counter; }

  Point Next(Slot slot);
  // One for each known stream.
  std::vector<Point> NextOfAll();
  // Has events recorded that tell when the points are past, unless there are such events.
  void Settle(const Point& point);
  void Settle(const std::vector<Point>& points);
  // All points of a stream, of all streams.
  void Settle(Slot slot);
  void SettleAll();
  // Asks the driver how far the streams are: one query for each that has events, and one for each that was reached.
  void Poll();
  // As of the last Poll.
  bool IsPast(const Point& point) const;
  bool IsPast(const std::vector<Point>& points) const;

  // The newest point of `owner` before which memory may be used by `user`.
  uint64_t Usable(Slot user, Slot owner) const {
    if (owner == kNobody || owner == user) return UINT64_MAX;
    const std::vector<uint64_t>& waited = lines_[user]->waited;
    return std::max(lines_[owner]->past, owner < waited.size() ? waited[owner] : 0);
  }
  // Work queued for `user` from now on runs after what `owner` has queued; false: the driver refused.
  bool Order(Slot user, Slot owner);

  // This moment; one in the life of an unknown stream is never reached.
  StreamMark Mark(device::Stream stream) const;
  // The slot of the stream, all of whose points before the moment are past; kNobody if it lives no more.
  Slot Reached(const StreamMark& mark);
  // The stream's work is done, and it is forgotten.
  void Release(device::Stream stream);

  // What to wait for, without the lock, until all that was settled is past; Poll then sees it.
  std::vector<SharedEvent> Pending() const;
  static Status Wait(const std::vector<SharedEvent>& events);
  // Work queued on `later` from now on runs after what is queued on `earlier`; `later` must not be capturing, and where
  // `earlier` is, it is kFailedPrecondition.
  static Status OrderStreams(device::Stream later, device::Stream earlier);

 private:
  struct Event {
    uint64_t sequence;
    SharedEvent event;
  };
  struct alignas(64) Line {  // counters are written by different threads
    device::Stream stream = nullptr;
    uint32_t life = 0;  // 0: vacant
    PointCounter counter;
    uint64_t past = 0;
    uint64_t wanted = 0;  // to be settled
    std::deque<Event> events;
    std::vector<uint64_t> waited;  // by slot: what this stream was made to wait for
  };
  void Settle(Line* line, uint64_t sequence);
  void Advance(Line* line, uint64_t sequence);
  SharedEvent Record(device::Stream stream);

  std::vector<std::unique_ptr<Line>> lines_;  // by slot
  uint32_t last_life_ = 0;
  std::vector<SharedEvent> spare_;
};

}  // namespace cudaep::memory
