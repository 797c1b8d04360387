// What libcupti.so.13 of fake_cupti.cc is told by the test that plays the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "lib/cuda/cupti_api.h"

struct FakeCupti {
  // Of the calls that follow; success where it is empty or false.
  bool other_subscriber = false;
  bool forbidden = false;
  size_t dropped = 0;

  // A call on this thread, as the driver makes it: its correlation record where a scope is open. Returns its number.
  std::function<uint32_t()> call;
  // A kernel of a call, in its device's open buffer of work; `done` fills in its times.
  uint32_t device = 0;
  std::function<size_t(uint32_t call, const char* name, uint64_t graph_node)> queue;
  std::function<void(size_t kernel, uint64_t begin_ns, uint64_t end_ns)> done;
  // A fill that is done, queued in the scope that was pushed last: the simulated device runs work on another thread.
  std::function<void(uint32_t device)> filled;
  // Starts another buffer of work for every device; correlation records have buffers of their own.
  std::function<void()> next_buffer;

  // What was asked for.
  int enabled = 0, forced = 0, flushes = 0, subscribers = 0;
  std::function<void()> at_flush;
};

extern "C" __attribute__((visibility("default"))) FakeCupti* fakeCupti();
