// How far the streams that use an allocator's memory have got.
//
// Mark names the point that a stream reaches once all work queued there so far is done; Poll finds out which points
// were reached. It is for memory that changes hands rarely (blocks of the caller's allocator, memory without a stream):
// a mark is one event record. MarkLater names such a point without asking the driver: it is reached when somebody waits
// (Reached), or once Settle has recorded it; many share one.
//
// Capture: nothing is recorded on a capturing stream. Its mark is made up for by the first Poll after the capture, and
// so is one that the driver refused.
// Threads: guarded by the owner's lock. Driver calls need the device to be current and the thread's capture mode
// relaxed (memory/relaxed_capture.h).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/status.h"
#include "device/device.h"
#include "memory/allocator.h"

namespace cudaep::memory {

// Whether `stream` is capturing; one that cannot be asked is taken to be.
bool IsCapturing(device::Stream stream);

class StreamProgress {
 public:
  // Shared, so that one thread can wait for it without the lock.
  using SharedEvent = std::shared_ptr<device::UniqueEvent>;
  struct Point {
    uint64_t stream = 0;  // a number of its own: handles are reused
    uint64_t sequence = 0;
  };

  // No-op for a known stream.
  void Add(device::Stream stream) { Find(stream); }
  bool Knows(device::Stream stream) const { return streams_.contains(stream); }

  // Adds the stream if need be.
  Point Mark(device::Stream stream);
  // One for each known stream.
  std::vector<Point> MarkAll();
  Point MarkLater(device::Stream stream);
  std::vector<Point> MarkAllLater();
  // Records what was to be recorded later: for one stream, or all.
  void Settle(const Point& point);
  void SettleAll();

  // Asks the driver how far the streams are: one query for each that has marks, and one for each mark reached.
  void Poll();
  // As of the last Poll.
  bool IsPast(const Point& point) const;
  bool IsPast(const std::vector<Point>& points) const;

  // This moment; one in the life of an unknown stream is never reached.
  StreamMark Now(device::Stream stream);
  // Whether the stream still lives. Every point marked before the moment is reached: the caller has waited since.
  bool Reached(const StreamMark& mark);
  // The stream's work is done, and it is forgotten.
  void Release(device::Stream stream);

  // What to wait for, without the lock, until all marks made so far are reached; Poll then sees it.
  std::vector<SharedEvent> Pending();
  static Status Wait(const std::vector<SharedEvent>& events);

  // Work queued on `later` from now on runs after what is queued on `earlier`; `later` must not be capturing, and where
  // `earlier` is, it is kFailedPrecondition.
  static Status Order(device::Stream later, device::Stream earlier);

 private:
  struct Entry {
    uint64_t sequence;
    SharedEvent event;   // null: not recorded yet
    bool later = false;  // it need not be
  };
  struct Progress {
    device::Stream stream = nullptr;
    uint64_t number = 0;
    uint64_t marked = 0, reached = 0;
    bool shares = false;  // the last entry, not recorded yet, serves marks to come
    std::deque<Entry> entries;
  };
  Progress& Find(device::Stream stream);
  SharedEvent Record(device::Stream stream);
  void Settle(Progress* progress);
  void DropUnrecorded(Progress* progress);
  void Recycle(SharedEvent event);

  uint64_t last_number_ = 0;
  std::unordered_map<device::Stream, Progress> streams_;
  std::unordered_map<uint64_t, Progress*> by_number_;  // addresses in a node-based map stay
  std::vector<SharedEvent> spare_;
};

}  // namespace cudaep::memory
