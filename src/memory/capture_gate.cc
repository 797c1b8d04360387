#include "memory/capture_gate.h"

#include <condition_variable>
#include <mutex>

#include "core/condition.h"
#include "device/device.h"

namespace cudaep::memory {
namespace {

struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  int captures = 0;  // under way, or due
  int waits = 0;     // under way
};

// Never destroyed: sessions may end in static destructors.
Gate& TheGate() {
  static auto* const gate = new Gate;
  return *gate;
}

thread_local constinit int t_captures = 0;

}  // namespace

CaptureTurn::CaptureTurn() {
  Gate& gate = TheGate();
  std::unique_lock lock(gate.mutex);
  ++gate.captures;
  ++t_captures;
  WaitUntil(gate.changed, lock, [&] { return gate.waits == 0; });
}

CaptureTurn::~CaptureTurn() {
  Gate& gate = TheGate();
  std::lock_guard lock(gate.mutex);
  --gate.captures;
  --t_captures;
  gate.changed.notify_all();
}

DeviceWaitTurn::DeviceWaitTurn() {
  if (t_captures != 0) return;
  Gate& gate = TheGate();
  std::unique_lock lock(gate.mutex);
  WaitUntil(gate.changed, lock, [&] { return gate.captures == 0; });
  ++gate.waits;
  is_taken_ = true;
}

DeviceWaitTurn::~DeviceWaitTurn() {
  if (!is_taken_) return;
  Gate& gate = TheGate();
  std::lock_guard lock(gate.mutex);
  --gate.waits;
  gate.changed.notify_all();
}

std::shared_mutex& RecordMutex() {
  static auto* const mutex = new std::shared_mutex;
  return *mutex;
}

Status SynchronizeDevice() {
  const DeviceWaitTurn turn;
  if (turn.is_taken()) return device::DeviceSynchronize();
  return FailedPrecondition("a thread waits for the device that is capturing a CUDA graph there");
}

}  // namespace cudaep::memory
