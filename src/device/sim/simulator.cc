#include "device/sim/simulator.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>

#include "core/checked_math.h"
#include "core/spin_lock.h"
#include "core/strings.h"
#include "device/sim/block_executor.h"

namespace cudaep::device::sim {
namespace {

// Device memory starts 1 GiB into a 4 GiB window, and ends, where growable memory is placed, 1 GiB before one: padding
// of a struct that still holds the upper half of an old pointer next to a small integer then never looks like a pointer
// to memory in use.
constexpr size_t kWindowBytes = size_t{4} << 30;
constexpr size_t kFirstByte = size_t{1} << 30;
constexpr size_t kAddressFactor = 12;
constexpr size_t kPinnedBytes = size_t{16} << 30;

// Ends the executor thread before the library's code goes away, and returns the address range of a library that is
// unloaded, which may be loaded again.
struct ExecutorEnd {
  ~ExecutorEnd() {
    Simulator::Get().StopExecutor();
    Simulator::Get().ReturnRange();
  }
};

}  // namespace

ThreadState& CurrentThread() {
  static thread_local ThreadState state;
  return state;
}

Simulator& Simulator::Get() {
  static Simulator* const simulator = [] {
    auto* made = new Simulator;  // outlives every static destructor, which may still release handles
    Lock lock = made->Acquire();
    made->Configure(lock, Configuration::FromEnvironment()).IgnoreError();
    return made;
  }();
  static ExecutorEnd end;
  static const int at_fork = pthread_atfork(nullptr, nullptr, [] { Simulator::Get().ForgetExecutor(); });
  static_cast<void>(at_fork);
  return *simulator;
}

Status Simulator::Configure(Lock& lock, const Configuration& configuration) {
  if (configuration.devices < 0 || configuration.devices > 64) {
    return InvalidArgument("simulated devices: 0 to 64 are possible, not ", configuration.devices);
  }
  WaitUntil(progress_, lock, [this] { return !executing_; });
  for (const auto& stream : streams_) stream->queue.clear();
  streams_.clear();
  handles_.clear();
  captures.clear();
  events.clear();
  graphs.clear();
  execs.clear();
  pools.clear();
  devices.clear();
  pinned.reset();
  accesses.Clear();
  faults.Clear();
  host_counters = Counters();
  only_stream = nullptr;
  queued_ = shared_ = kernels_run_ = 0;
  if (range_ != nullptr) munmap(range_, range_bytes_);
  ++era;
  config = configuration;
  random_ = config.seed;
  CurrentThread().ordinal = 0;
  BlockExecutor::Configure(config.thread_order, config.seed);
  // Several times the capacity of addresses: freed ranges need not be reused soon, growable memory reserves plenty.
  stride_ = AlignUp(kAddressFactor * config.memory_bytes + 2 * kFirstByte, kWindowBytes);
  range_bytes_ = stride_ * static_cast<size_t>(config.devices) + kPinnedBytes + 2 * kWindowBytes;
  range_ = mmap(nullptr, range_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range_ == MAP_FAILED) {
    range_ = nullptr;
    return OutOfMemory("no address range of ", range_bytes_, " bytes for the simulated devices");
  }
  uintptr_t base = AlignUp(reinterpret_cast<uintptr_t>(range_), uintptr_t{kWindowBytes}) + kFirstByte;
  for (int i = 0; i < config.devices; ++i, base += stride_) {
    Device& device = devices.emplace_back();
    device.ordinal = i;
    device.heap = std::make_unique<Heap>(base, stride_ - 2 * kFirstByte, config.memory_bytes, config.quarantine_bytes,
                                         config.guard_pages, /*keyed=*/true);
    device.legacy = AddStream(i)->shared_from_this();
    device.legacy->legacy = true;
    device.legacy->id = 0;
    handles_.erase(device.legacy.get());
  }
  next_stream_ = 1;
  pinned = std::make_unique<Heap>(base, kPinnedBytes, kPinnedBytes / 2, config.quarantine_bytes, config.guard_pages,
                                  /*keyed=*/false);
  return Status::Ok();
}

// What still lives may be used and freed by whoever ends later, so it keeps its memory. With nothing alive the machine
// has no devices from here on, and late calls fail with statuses.
void Simulator::ReturnRange() {
  Lock lock(mutex_);
  if (range_ == nullptr || pinned->live() != 0) return;
  for (const Device& device : devices) {
    if (device.heap->live() != 0) return;
  }
  Configuration none = config;
  none.devices = 0;
  Configure(lock, none).IgnoreError();
  pinned.reset();
  if (range_ != nullptr) munmap(std::exchange(range_, nullptr), range_bytes_);
}

Status Simulator::Enter(CallKind kind, int ordinal) {
  ++calls;
  if (SpinLock::held() != 0) return Status(StatusCode::kInternal, "a driver call under a spin lock");
  if (CurrentThread().in_callback) {
    return FailedPrecondition("a host callback or library stand-in may not call the device interface");
  }
  CUDAEP_RETURN_IF_ERROR(faults.Next(kind));
  if (ordinal >= 0 && !devices[static_cast<size_t>(ordinal)].lost.ok()) {
    return devices[static_cast<size_t>(ordinal)].lost;
  }
  return Status::Ok();
}

Status Simulator::CurrentDevice(int* ordinal) const {
  *ordinal = CurrentThread().ordinal;
  if (static_cast<size_t>(*ordinal) < devices.size()) return Status::Ok();
  return Status(StatusCode::kDeviceError, StrCat("no simulated device ", *ordinal, "; there are ", devices.size()));
}

StreamHandle* Simulator::Lookup(Stream stream) {
  if (stream == nullptr || stream == kLegacyStream) {
    int ordinal = 0;
    return CurrentDevice(&ordinal).ok() ? devices[static_cast<size_t>(ordinal)].legacy.get() : nullptr;
  }
  const auto found = handles_.find(stream);
  return found == handles_.end() ? nullptr : found->second;
}

Result<StreamHandle*> Simulator::EnterStream(CallKind kind, Stream stream) {
  StreamHandle* found = Lookup(stream);
  if (found == nullptr) return InvalidArgument("the stream ", static_cast<const void*>(stream), " does not exist");
  CUDAEP_RETURN_IF_ERROR(Enter(kind, found->ordinal));
  if (found->legacy) CUDAEP_RETURN_IF_ERROR(CheckCaptures("use of the legacy default stream"));
  const bool queues = kind != CallKind::kSynchronize && kind != CallKind::kQuery && kind != CallKind::kCapture;
  if (queues && found->capture == nullptr) OrderWithLegacy(found);
  return found;
}

// The wait is part of the operation that follows: nothing wakes the executor for it, and no counter shows it.
void Simulator::OrderWithLegacy(StreamHandle* stream) {
  const auto wait_for = [&](const std::shared_ptr<StreamHandle>& earlier) {
    if (stream->clock.Covers(earlier->slot, earlier->submitted)) return;
    stream->clock.Join(earlier->clock);
    stream->clock.Reach(earlier->slot, earlier->submitted);
    if (earlier->completed == earlier->submitted) return;
    Work wait{EventWait{earlier, earlier->submitted}, stream->ordinal, {}};
    stream->queue.push_back({std::make_shared<const Work>(std::move(wait)), ++stream->submitted, stream->id, {}});
    ++queued_;
  };
  if (stream->blocking) wait_for(devices[static_cast<size_t>(stream->ordinal)].legacy);
  if (!stream->legacy) return;
  for (const auto& other : streams_) {
    if (other->blocking && other->ordinal == stream->ordinal) wait_for(other);
  }
}

StreamHandle* Simulator::AddStream(int ordinal) {
  auto stream = std::make_shared<StreamHandle>();
  stream->ordinal = ordinal;
  stream->id = next_stream_++;
  if (free_slots_.empty()) {
    stream->slot = next_slot_++;
  } else {
    stream->slot = free_slots_.back().first;
    stream->submitted = stream->completed = free_slots_.back().second;
    free_slots_.pop_back();
  }
  handles_.emplace(stream.get(), stream.get());
  streams_.push_back(stream);
  return stream.get();
}

void Simulator::DestroyStream(Lock&, StreamHandle* stream) {
  if (only_stream == stream) only_stream = nullptr;
  if (stream->capture != nullptr) {
    const auto capture = stream->capture;
    capture->Invalidate("a stream that takes part was destroyed").IgnoreError();
    if (capture->origin == stream) {
      EndCapture(capture.get());
    } else {
      std::erase(capture->members, stream);
      stream->capture.reset();
    }
  }
  handles_.erase(stream);
  stream->destroyed = true;
  if (stream->queue.empty() && stream->completed == stream->submitted) RemoveStream(stream);
}

// Called once a destroyed stream has nothing left to run.
void Simulator::RemoveStream(StreamHandle* stream) {
  free_slots_.emplace_back(stream->slot, stream->submitted);
  std::erase_if(streams_, [stream](const auto& held) { return held.get() == stream; });
}

Heap* Simulator::HeapOf(uintptr_t address) {
  for (Device& device : devices) {
    if (device.heap->Contains(address)) return device.heap.get();
  }
  return pinned != nullptr && pinned->Contains(address) ? pinned.get() : nullptr;
}

int Simulator::OrdinalOf(uintptr_t address) const {
  for (const Device& device : devices) {
    if (device.heap->Contains(address)) return device.ordinal;
  }
  return -1;
}

Status Simulator::CheckAllRedZones(int ordinal) {
  Device& device = devices[static_cast<size_t>(ordinal)];
  for (const Heap* heap : {device.heap.get(), pinned.get()}) {
    Status status = heap->CheckRedZones();
    if (!status.ok()) MarkLost(ordinal, status);
  }
  return device.lost;
}

void Simulator::ResetCounters() {
  host_counters = Counters();
  for (Device& device : devices) device.counters = Counters();
  for (const auto& stream : streams_) stream->counters = Counters();
}

Status Simulator::CheckCaptures(const char* call) {
  const CaptureMode mode = CurrentThread().capture_mode;
  if (captures.empty() || mode == CaptureMode::kRelaxed) return Status::Ok();
  Status status;
  for (Capture* capture : captures) {
    const bool own = capture->thread == std::this_thread::get_id() && capture->mode != CaptureMode::kRelaxed;
    const bool global = capture->mode == CaptureMode::kGlobal && mode == CaptureMode::kGlobal;
    if (own || global) {
      capture->Invalidate(StrCat(call, " is not permitted while a stream is capturing")).IgnoreError();
      status = FailedPrecondition(call, " is not permitted while a stream is capturing; the capture is invalid now");
    }
  }
  return status;
}

Status Simulator::CheckDeviceWait(int ordinal) {
  Status status = CheckCaptures("a device synchronisation");
  for (Capture* capture : captures) {
    if (capture->body->ordinal != ordinal) continue;
    status = capture->Invalidate("the device was waited for while one of its streams is capturing");
  }
  return status;
}

}  // namespace cudaep::device::sim
