// Captures of ours and waits for a whole device take turns.
//
// CUDA refuses to wait for a device while one of its streams is captured, on whatever thread and in whatever mode, and
// ends the capture. Waits for single streams and events of other work are allowed (memory/relaxed_capture.h).
// Captures run beside each other, and so do waits; a capture that is due comes before waits that have not begun.
// Whoever records an event on a stream that may be another thread's to capture asks whether it is capturing first; that
// no capture begins between the answer and the record is RecordMutex's.
// Threads: any. A capture begins and ends on one thread, which waits for no device meanwhile.
#pragma once

#include <shared_mutex>

#include "core/status.h"

namespace cudaep::memory {

// From before a capture's beginning to after its end; waits for the waits under way.
class CaptureTurn {
 public:
  CaptureTurn();
  ~CaptureTurn();
  CaptureTurn(const CaptureTurn&) = delete;
  CaptureTurn& operator=(const CaptureTurn&) = delete;
};

// Around what waits for a device by itself (freeing of memory and of library handles): no capture of ours is under way
// meanwhile. Does nothing on a thread that has a CaptureTurn (is_taken() is false).
class DeviceWaitTurn {
 public:
  DeviceWaitTurn();
  ~DeviceWaitTurn();
  DeviceWaitTurn(const DeviceWaitTurn&) = delete;
  DeviceWaitTurn& operator=(const DeviceWaitTurn&) = delete;
  bool is_taken() const { return is_taken_; }

 private:
  bool is_taken_ = false;
};

// Held alone by whoever begins a capture, while it does; shared by those who ask and record.
std::shared_mutex& RecordMutex();

// Waits for all work of the current device, once no capture of ours is under way. kFailedPrecondition on a thread that
// has a CaptureTurn.
Status SynchronizeDevice();

}  // namespace cudaep::memory
