// The simulated machine: devices, memory, streams, and the one executor thread that runs their work.
//
// One lock guards all of it; it is released while an operation runs. Public functions of device.h take the lock, pass
// through Enter (faults, lost devices, calls that host callbacks may not make) and work on the structures here.
//
// Threads: every member is used with the lock held. The executor thread starts with the first work that must run and
// ends with the library; after that, and in a forked child, waiting threads run the work themselves.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/condition.h"
#include "device/sim/access_table.h"
#include "device/sim/capture.h"
#include "device/sim/faults.h"
#include "device/sim/heap.h"
#include "device/sim/memory_key.h"
#include "device/sim/memory_pool.h"
#include "device/sim/stream.h"

namespace cudaep::device::sim {

// The simulator's lock, with the rights to device memory for as long as it lives: also while it is let go for a kernel.
class Lock : public std::unique_lock<std::mutex> {
 public:
  explicit Lock(std::mutex& mutex) : std::unique_lock<std::mutex>(mutex) {}

 private:
  MemoryRights rights_{true};
};

enum class Moment : uint8_t { kSubmission, kExecution };

struct Device {
  int ordinal = 0;
  std::unique_ptr<Heap> heap;
  std::shared_ptr<StreamHandle> legacy;
  Counters counters;
  Status lost;                // not ok: the first cause, as later calls report it
  std::string pending_error;  // planned: reported by the next synchronisation
  std::unordered_set<int> peers;
};

class Simulator {
 public:
  static Simulator& Get();
  Lock Acquire() { return Lock(mutex_); }

  // ---- State (simulator.cc) ----
  Status Configure(Lock& lock, const Configuration& configuration);
  Configuration config;
  std::vector<Device> devices;
  std::unique_ptr<Heap> pinned;
  FaultPlan faults;
  Counters host_counters;  // what belongs to no device
  AccessTable accesses;
  Clock host_clock;    // what some host thread knows to have finished
  uint64_t calls = 0;  // numbers calls, for histories
  uint64_t era = 0;    // counts calls of Configure
  StreamHandle* only_stream = nullptr;
  ActivityObserver observer = nullptr;
  std::vector<Capture*> captures;  // in progress
  std::unordered_map<EventHandle*, std::unique_ptr<EventHandle>> events;
  std::unordered_map<GraphHandle*, std::unique_ptr<GraphHandle>> graphs;
  std::unordered_map<GraphExecHandle*, std::unique_ptr<GraphExecHandle>> execs;
  std::unordered_map<MemoryPool, std::shared_ptr<MemoryPoolHandle>> pools;

  // The checks at the start of every call: number it, refuse it inside a callback, inject a planned fault, refuse it
  // on a lost device (`ordinal` < 0: no device is concerned).
  Status Enter(CallKind kind, int ordinal);
  // Enter, and the stream behind a handle; null and kLegacyStream mean the current device's legacy stream. A call that
  // queues something is ordered with the legacy stream here.
  Result<StreamHandle*> EnterStream(CallKind kind, Stream stream);
  StreamHandle* Lookup(Stream stream);
  // What CUDA adds before each operation of the legacy stream and of blocking streams: waits for each other's work.
  void OrderWithLegacy(StreamHandle* stream);
  Status CurrentDevice(int* ordinal) const;
  StreamHandle* AddStream(int ordinal);
  // The handle is gone at once; what it has queued still runs, and a capture it takes part in fails.
  void DestroyStream(Lock& lock, StreamHandle* stream);
  void RemoveStream(StreamHandle* stream);
  Heap* HeapOf(uintptr_t address);
  int OrdinalOf(uintptr_t address) const;  // -1 for pinned memory
  // Refuses what this thread may not call while captures run, and invalidates them.
  Status CheckCaptures(const char* call);
  // The same for a wait for a whole device, which no mode and no thread permits while a stream of it is capturing.
  Status CheckDeviceWait(int ordinal);
  // `stream` waits for an event of a capture: it continues there.
  Status JoinCapture(StreamHandle* stream, const EventState& event);
  void EndCapture(Capture* capture);
  // What pools release when the host has synchronised with `ordinal`.
  void ReleaseUnusedPoolMemory(int ordinal);
  // An overwritten red zone makes the device lost, as an illegal address would.
  Status CheckAllRedZones(int ordinal);
  void ResetCounters();

  // ---- Work (submit.cc) ----
  // Checks the work's pointers, then queues it or adds it to the stream's capture.
  Status Submit(Lock& lock, StreamHandle* stream, Work work);
  // Existence, device and extent of everything the work touches.
  Status CheckPointers(const Work& work, Moment moment);
  Status CheckBlocks(Work* work);
  void CountWork(const Work& work, StreamHandle* stream);
  // A declared block of `stream` has ended: once what is queued there has run, its bytes are overwritten.
  void OverwriteBlock(Lock& lock, StreamHandle* stream, const Block& block);

  // ---- Scheduling (scheduler.cc) ----
  void Enqueue(Lock& lock, StreamHandle* stream, std::shared_ptr<const Work> work, Clock clock);
  // Waits until `sequence` of `stream` has run and lets the host know what precedes it. The status is the device's.
  Status WaitFor(Lock& lock, StreamHandle* stream, uint64_t sequence, const Clock& clock);
  Status WaitForStream(Lock& lock, StreamHandle* stream);
  Status WaitForDevice(Lock& lock, int ordinal);
  bool has_shared_work() const { return shared_ != 0; }
  // Lets one operation that `stream` needs run; for queries, so that loops around them end.
  void Nudge(Lock& lock, StreamHandle* stream);
  void MarkLost(int ordinal, const Status& cause);
  void StopExecutor();
  void ForgetExecutor();  // in a forked child
  void ReturnRange();     // when the library ends

 private:
  struct Demand {
    StreamHandle* stream = nullptr;  // null: any `count` operations
    uint64_t sequence = 0;
    uint64_t count = 0;
    bool met = false;
  };
  Simulator() = default;
  void Meet(Lock& lock, Demand* demand);
  StreamHandle* Pick();
  StreamHandle* PickNeeded(StreamHandle* stream);
  StreamHandle* PickAny();
  // For shared work, which is wanted wherever it was queued: others wait for it.
  StreamHandle* PickShared();
  static void WaitForOthers(std::condition_variable& condition, Lock& lock);
  bool IsReady(const StreamHandle& stream) const;
  void RunHead(Lock& lock, StreamHandle* stream);
  void SettleDemands();
  void WakeExecutor();
  void ExecutorLoop();
  // execute.cc
  // `next`: what runs after it on its stream, if that is known. `graph_node`: as in Activity.
  Status Execute(Lock& lock, const Work& work, const QueuedWork& item, const std::shared_ptr<const Work>& next,
                 uint64_t graph_node = 0);
  Status RunPayload(Lock& lock, const Work& work, const QueuedWork& item, const std::shared_ptr<const Work>& next);
  // With what `next`, if there is something, does before it.
  Status RunKernel(Lock& lock, const KernelWork& kernel, const Work* next);
  void TellObserver(const Work& work, const QueuedWork& item, uint64_t graph_node, uint64_t begin_ns) const;
  Status ExecuteGraph(Lock& lock, const GraphBody& body, const QueuedWork& item);
  Status CheckRedZonesOf(const Work& work);
  void Overwrite(const OverwriteWork& block);

  std::mutex mutex_;
  std::condition_variable wake_, progress_;
  std::thread executor_;
  bool inline_ = false, stop_ = false, executor_idle_ = false, executing_ = false;
  uint64_t random_ = 1;
  std::vector<Demand*> demands_;
  std::vector<std::shared_ptr<StreamHandle>> streams_;  // living, and destroyed ones that still have work
  std::unordered_map<Stream, StreamHandle*> handles_;
  std::vector<std::pair<uint32_t, uint64_t>> free_slots_;  // with the sequence to continue from
  uint32_t next_slot_ = 0, next_stream_ = 1;
  size_t queued_ = 0, shared_ = 0;  // operations, and those of them that are shared work
  uint64_t kernels_run_ = 0;        // since Configure, for Configuration::lose_at_kernel
  void* range_ = nullptr;           // all devices' memory, then pinned memory
  size_t range_bytes_ = 0, stride_ = 0;
};

// The calling thread's current device and capture mode.
struct ThreadState {
  int ordinal = 0;
  CaptureMode capture_mode = CaptureMode::kGlobal;
  bool in_callback = false;
  uint64_t activity_scope = 0;
};
ThreadState& CurrentThread();

}  // namespace cudaep::device::sim
