// The plug-in itself plus a few C functions on the copy of the simulated device that it runs on, for ctypes and dlsym:
// counters, streams and memory of an application, a slow producer, faults. Everything but these functions is the
// product's own code. Functions that can fail return null or 0 for success and otherwise the text of the error, valid
// until the thread's next call.
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/sim/sim.h"

#define PROBE_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using cudaep::Status;
namespace device = cudaep::device;
namespace sim = cudaep::device::sim;

const char* TextOf(const Status& status) {
  static thread_local std::string text;
  text = status.ToString();
  return status.ok() ? nullptr : text.c_str();
}

struct {
  std::mutex mutex;
  std::set<void*> given;
  std::vector<void*> kept;
} external;

device::Stream StreamOf(void* handle) { return static_cast<device::Stream>(handle); }

}  // namespace

// Counters since the start, in the order of session_probe.py.
PROBE_EXPORT void ProbeCounters(uint64_t* out) {
  const sim::Counters c = sim::Snapshot();
  for (const uint64_t value :
       {c.launches, c.host_work, c.host_to_device, c.device_to_host, c.device_to_device, c.pageable_copies,
        c.device_syncs, c.stream_syncs, c.event_syncs, c.queries, c.device_allocations, c.device_frees,
        c.async_allocations, c.pool_growths, c.host_allocations, c.host_callbacks, c.event_records, c.event_waits,
        c.graph_launches}) {
    *out++ = value;
  }
}

// Null when there is no such device.
PROBE_EXPORT void* ProbeStreamCreate(int ordinal, int blocking) {
  const device::DeviceGuard guard(ordinal);
  device::Stream stream = nullptr;
  const auto kind = blocking != 0 ? device::StreamKind::kBlocking : device::StreamKind::kNonBlocking;
  if (guard.status().ok()) device::StreamCreate(&stream, kind).IgnoreError();
  return stream;
}
PROBE_EXPORT const char* ProbeStreamDestroy(void* stream) { return TextOf(device::StreamDestroy(StreamOf(stream))); }
PROBE_EXPORT const char* ProbeStreamSynchronize(void* stream) {
  return TextOf(device::StreamSynchronize(StreamOf(stream)));
}
PROBE_EXPORT const char* ProbeDeviceSynchronize() { return TextOf(device::DeviceSynchronize()); }
// 1 while work is queued; also lets one operation run.
PROBE_EXPORT int ProbeStreamBusy(void* stream) { return device::StreamQuery(StreamOf(stream)).ok() ? 0 : 1; }

PROBE_EXPORT void* ProbeMalloc(size_t bytes) {
  void* pointer = nullptr;
  device::Malloc(&pointer, bytes).IgnoreError();
  return pointer;
}
PROBE_EXPORT const char* ProbeFree(void* pointer) { return TextOf(device::Free(pointer)); }

// An allocator of the application's for `gpu_external_alloc`, which keeps what it gets back, as caching ones do, until
// ProbeExternalTrim. Native: Python's callbacks take the interpreter's lock, which other threads hold while they wait
// for the host.
PROBE_EXPORT void* ProbeExternalAlloc(size_t bytes) {
  const std::scoped_lock lock(external.mutex);
  void* const pointer = ProbeMalloc(bytes);
  external.given.insert(pointer);
  return pointer;
}
PROBE_EXPORT void ProbeExternalFree(void* pointer) {
  const std::scoped_lock lock(external.mutex);
  if (external.given.erase(pointer) != 0) external.kept.push_back(pointer);
}
// Frees what came back: counts[1] blocks; counts[0] are still out.
PROBE_EXPORT void ProbeExternalTrim(uint64_t* counts) {
  const std::scoped_lock lock(external.mutex);
  counts[0] = external.given.size();
  counts[1] = external.kept.size();
  for (void* const pointer : external.kept) ProbeFree(pointer);
  external.kept.clear();
}

// Captures what the calling thread enqueues on `stream`, as torch.cuda.graph does, into a graph that can be launched.
PROBE_EXPORT const char* ProbeCaptureBegin(void* stream) {
  return TextOf(device::StreamBeginCapture(StreamOf(stream), device::CaptureMode::kThreadLocal));
}
PROBE_EXPORT const char* ProbeCaptureEnd(void* stream, void** exec) {
  device::UniqueGraph graph;
  Status status = device::StreamEndCapture(StreamOf(stream), graph.Receive());
  device::GraphExec instance = nullptr;
  if (status.ok()) status = device::GraphInstantiate(&instance, graph.get());
  *exec = instance;
  return TextOf(status);
}
PROBE_EXPORT const char* ProbeGraphLaunch(void* exec, void* stream) {
  return TextOf(device::GraphLaunch(static_cast<device::GraphExec>(exec), StreamOf(stream)));
}
PROBE_EXPORT const char* ProbeGraphDestroy(void* exec) {
  return TextOf(device::GraphExecDestroy(static_cast<device::GraphExec>(exec)));
}

// Queues the work of a producer: out[i] = value. In late mode it runs when somebody waits for it, so that it is as slow
// as can be.
PROBE_EXPORT const char* ProbeProduce(void* stream, float* out, float value, int64_t count) {
  void* writes[] = {out};
  return TextOf(sim::EnqueueHostWork(
      StreamOf(stream), "producer",
      [out, value, count] {
        for (int64_t i = 0; i < count; ++i) out[i] = value;
      },
      {}, writes));
}
// Copies to host memory on `stream` and waits for it.
PROBE_EXPORT const char* ProbeRead(void* stream, void* to, const void* from, size_t bytes) {
  return TextOf(device::MemcpyAsync(to, from, bytes, StreamOf(stream)));
}

// The first of them as it is now, whatever is queued.
PROBE_EXPORT float ProbePeek(const float* pointer) { return *pointer; }
// Device memory that is allocated now, with what pools hold.
PROBE_EXPORT size_t ProbeBytesInUse(int ordinal) { return sim::BytesInUse(ordinal); }

// Only work on this stream is accepted from now on; null lifts it.
PROBE_EXPORT void ProbeRestrict(void* stream) { sim::RestrictToStream(StreamOf(stream)); }
// From now on no stream can be created; 0 lifts it together with all other faults.
PROBE_EXPORT void ProbeRefuseStreams(int refuse) {
  sim::ClearFaults();
  if (refuse != 0) {
    sim::FailCall(sim::CallKind::kStreamCreate, 1, Status(cudaep::StatusCode::kDeviceError, "no more streams"),
                  UINT64_MAX);
  }
}
