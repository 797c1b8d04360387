// What the device did and when: kernels, copies and fills, each with the scope of the thread that asked for it.
//
// One interface, CUPTI behind it (found at run time like the other libraries) or the simulated device's clock.
// A scope is a number that a thread pushes before it calls the device or a library; work that is queued until it pops
// belongs to the innermost one. A replay of a CUDA graph is one call, of one scope; its activities share the call's
// number.
// Threads: PushScope, PopScope and Now by any thread while the trace is on; Start, Stop and Flush one at a time.
// Ownership: the trace is the process's and is never destroyed, also not when it ends: CUPTI may give buffers back
// until then, which are dropped. CUPTI keeps pointers into this library, which stays in the process from the first
// Start on. Bounds: 2^20 to 2^21 calls inside scopes are remembered; work that ends after so many later calls is not
// told. A child by fork has no device and must not use the trace.
#pragma once

#include <cstdint>
#include <span>

#include "core/status.h"

namespace cudaep::lib {

enum class ActivityKind : uint8_t { kKernel, kCopy, kFill };

struct Activity {
  ActivityKind kind = ActivityKind::kKernel;
  const char* name = "";  // of a kernel or library call, as C++ writes it; lives as long as the process
  uint64_t begin_ns = 0, end_ns = 0;
  uint64_t bytes = 0;       // of a copy or fill
  uint64_t scope = 0;       // never 0: work outside of every scope is not told
  uint64_t call = 0;        // one number for all that one call queued
  uint64_t graph_node = 0;  // grows in the order in which nodes of a graph were captured; 0: not from a graph
  int ordinal = 0;
  uint32_t stream = 0;  // the trace's own number
};

// Gets activities on any thread, a few at a time and in no order. Must not call the device.
class ActivitySink {
 public:
  virtual void Take(std::span<const Activity> activities) = 0;
  virtual ~ActivitySink() = default;
};

class ActivityTrace {
 public:
  // Work that is queued after it, in a scope, is told to `sink`, until Stop. kFailedPrecondition where another tool has
  // CUPTI, kDeviceError with CUPTI's own words otherwise; the trace is off then.
  virtual Status Start(ActivitySink* sink) = 0;
  virtual void Stop() = 0;
  // Tells all that the current device has done by now; the caller has waited for it. `alone`: nobody needs what is
  // still running, which may be lost. Otherwise it is not, unless somebody's work keeps records back for more than a
  // second: what still runs then is counted in Lost.
  virtual Status Flush(bool alone) = 0;
  // Activities that were lost since Start, as far as is known: CUPTI had no room, or a flush did not wait for them.
  virtual uint64_t Lost() const = 0;

  virtual uint64_t Now() const = 0;            // of the clock of activities
  virtual void PushScope(uint64_t scope) = 0;  // not 0
  virtual void PopScope() = 0;

  virtual bool simulated() const = 0;
  virtual ~ActivityTrace() = default;
};

// kLibraryMissing where CUPTI cannot be loaded; looked for again at the next call then.
Result<ActivityTrace*> FindActivityTrace();

}  // namespace cudaep::lib
