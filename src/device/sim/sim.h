// Public interface of the simulated device for tests and for stand-ins of vendor libraries.
//
// Product code that must also build for GPUs includes device/device.h only. Everything here is process-wide and thread
// safe; Configure, Reset and the fault functions are meant for the quiet moments between tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "core/status.h"
#include "device/device.h"

namespace cudaep::device::sim {

// ---- Configuration ----------------------------------------------------------------------------------------------

enum class Mode : uint8_t {
  kLate,    // an operation runs only when something waits for it, or for what depends on it
  kRandom,  // seeded: now and then some operations run at submission; a wait runs a random ready stream's head first
  kEager,   // the executor runs operations as soon as it can, concurrently with the host
};
enum class ThreadOrder : uint8_t;  // block_executor.h: order of threads in a block and of blocks in a grid

struct Configuration {
  Mode mode = Mode::kLate;
  uint64_t seed = 1;
  int devices = 1;
  size_t memory_bytes = size_t{16} << 30;      // of each device; virtual until touched
  size_t quarantine_bytes = size_t{64} << 20;  // freed memory kept from reuse, to catch late uses
  size_t queue_limit = 1024;                   // operations of one stream before the submitter waits, as on a GPU
  bool guard_pages = false;  // each allocation ends (to 16 bytes) at a protected page: overruns, reads too, fault
  bool peer_access = true;   // whether devices can reach each other's memory once EnablePeerAccess was called
  ThreadOrder thread_order = {};
  int device_without_code = -1;  // the ordinal of a device that the build is said to have no code for
  // A programmatic launch begins before its predecessor, up to GridDependencyWait; so does EnqueueHostWork's `ahead`.
  bool dependents_ahead = true;
  uint64_t lose_at_kernel = 0;  // the device is lost when this kernel or library call runs, counted from 1; 0: never

  // The defaults above, overridden by CUDAEP_SIM_MODE (late, eager, random or random:SEED), CUDAEP_SIM_DEVICES,
  // CUDAEP_SIM_MEMORY_BYTES, CUDAEP_SIM_GUARD_PAGES (0, 1), CUDAEP_SIM_THREAD_ORDER (forward, reversed, random),
  // CUDAEP_SIM_WITHOUT_CODE, CUDAEP_SIM_DEPENDENTS_AHEAD (0, 1), CUDAEP_SIM_LOSE_DEVICE_AT.
  static Configuration FromEnvironment();
};

// Starts over with `configuration`: queued work is dropped, every handle and pointer becomes invalid, counters, faults
// and sticky errors are cleared. Must not race with other calls.
Status Configure(const Configuration& configuration);
// Configure with what the environment says.
Status Reset();
Configuration CurrentConfiguration();

// ---- Counters ---------------------------------------------------------------------------------------------------

struct Counters {
  uint64_t launches = 0;   // kernels, also those a graph replays
  uint64_t host_work = 0;  // EnqueueHostWork operations, also replayed ones
  uint64_t graph_launches = 0;
  uint64_t host_to_device = 0, host_to_device_bytes = 0;
  uint64_t device_to_host = 0, device_to_host_bytes = 0;
  uint64_t device_to_device = 0, device_to_device_bytes = 0;  // within a device and between devices
  uint64_t pageable_copies = 0;  // copies whose host side is not pinned; those to the host also count as a stream sync
  uint64_t memsets = 0, memset_bytes = 0;
  uint64_t device_syncs = 0, stream_syncs = 0, event_syncs = 0, queries = 0;
  uint64_t device_allocations = 0, device_frees = 0;  // Malloc, Free: what the driver does slowly
  uint64_t async_allocations = 0, async_frees = 0;    // MallocAsync, MallocFromPoolAsync, FreeAsync
  uint64_t pool_growths = 0, pool_releases = 0;       // times a pool took memory from the driver and gave some back
  uint64_t host_allocations = 0, host_frees = 0;      // pinned memory
  uint64_t host_callbacks = 0;
  uint64_t event_records = 0, event_waits = 0;

  uint64_t synchronizations() const { return device_syncs + stream_syncs + event_syncs; }
  Counters operator-(const Counters& earlier) const;
};
// All devices together.
Counters Snapshot();
Counters SnapshotOf(int ordinal);
Counters SnapshotOf(Stream stream);
void ResetCounters();
// Bytes that device allocations occupy now, with all that pools hold, and the most they did since the last Configure.
size_t BytesInUse(int ordinal);
size_t PeakBytes(int ordinal);
// Allocations of device memory not yet freed.
size_t LiveAllocations(int ordinal);

// ---- Faults -----------------------------------------------------------------------------------------------------

enum class CallKind : uint8_t {
  kAny,
  kMalloc,       // Malloc
  kMallocAsync,  // MallocAsync, MallocFromPoolAsync
  kPool,         // creation, settings, trimming and statistics of a memory pool
  kHostMalloc,
  kFree,  // Free, FreeAsync, HostFree
  kLaunch,
  kHostWork,
  kCopy,
  kMemset,
  kStreamCreate,
  kEventCreate,
  kEventRecord,
  kEventWait,
  kSynchronize,  // of a stream, event or device
  kQuery,
  kHostCallback,
  kCapture,  // begin and end
  kGraphInstantiate,
  kGraphUpdate,
  kGraphLaunch,
  kOther,
};

// The `nth` call of `kind` from now on (1 is the next) returns `status`, and so do the `count - 1` calls of the kind
// after it. The call has no effect.
void FailCall(CallKind kind, uint64_t nth, Status status, uint64_t count = 1);
// Each call of `kind` fails with `probability`, decided by `seed`.
void FailRandomly(CallKind kind, double probability, uint64_t seed, Status status);
// The `nth` allocation of device memory from now on (Malloc, MallocAsync, or a pool that must grow) finds none left.
void OutOfMemoryAt(uint64_t nth);
void ClearFaults();
// An error of work that runs, as if a kernel had failed: the next synchronisation reports it, later calls are lost.
void RaiseStickyError(int ordinal, std::string text);
// The device is gone at once.
void LoseDevice(int ordinal, std::string_view text);

// While set, a launch, copy, memset, stream-ordered allocation or host callback on any other stream is refused: proves
// that an operator uses the stream it was given. Null lifts it.
void RestrictToStream(Stream stream);

// ---- Activity ---------------------------------------------------------------------------------------------------

// One kernel, library call, copy or fill that has run, replayed ones too.
struct Activity {
  enum class Kind : uint8_t { kKernel, kLibrary, kCopy, kFill };
  Kind kind = Kind::kKernel;
  const void* kernel = nullptr;   // NameOfKernel knows its name
  std::string_view library_work;  // name of what EnqueueHostWork queued; valid during the call
  uint64_t bytes = 0;             // of a copy or fill
  uint64_t begin_ns = 0, end_ns = 0;
  uint64_t scope = 0;       // of the thread that queued it
  uint64_t call = 0;        // number of the call that queued it; one number for all nodes of a graph launch
  uint64_t graph_node = 0;  // its number in the capture, from 1; 0: it was queued by itself
  int ordinal = 0;
  uint32_t stream = 0;
};
// Called after each of them by the thread that ran it, which holds the device's lock: it must not call the device.
// Null: nobody is told, which is so at first.
using ActivityObserver = void (*)(const Activity& activity);
void ObserveActivity(ActivityObserver observer);
// Nanoseconds of the clock that activities and timing events are taken from.
uint64_t ActivityClock();
// What the calling thread queues from now on carries `scope`; returns the one it had, 0 at first.
uint64_t ExchangeActivityScope(uint64_t scope);
// Reads the symbol table of the library that holds it: slow.
std::string NameOfKernel(const void* kernel);

// ---- Work of library stand-ins ----------------------------------------------------------------------------------

// Queues `work` on `stream` like a kernel: it runs on the executor thread, can be captured and replayed (so it must be
// callable many times and capture by value), and its pointers get the checks of kernel arguments. `name` shows up in
// error texts. The work must not call the device interface, and must not own handles or memory of it. `ahead`, if any,
// is what it does before the kernel in front of it, if there is one, runs (dependents_ahead).
Status EnqueueHostWork(Stream stream, std::string name, std::function<void()> work, std::span<const void* const> reads,
                       std::span<void* const> writes, std::function<void()> ahead = {});

// Queues work that others have a part in: other processes, or other streams of this one. Once it is the first of its
// stream, `attempt` is called again and again, by whichever thread runs work, with the device's lock held, until it
// says that all is done; it gives up after a time of its own. It starts without anybody waiting for it here: others do.
// Cannot be captured.
Status EnqueueSharedWork(Stream stream, std::string name, std::function<bool()> attempt,
                         std::span<const void* const> reads, std::span<void* const> writes);

// Checks the red zones of every allocation now; also done by Free and by every synchronisation.
Status CheckRedZones(int ordinal);

}  // namespace cudaep::device::sim
