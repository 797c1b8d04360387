// The one door to the CUDA runtime: what the project uses of it, as plain functions and opaque handle types.
//
// Two implementations link against this header: device/cuda (the CUDA runtime) and device/sim (the simulated
// device). No CUDA header is needed to include it. Semantics are CUDA's: calls are asynchronous with respect to the
// host unless they say otherwise, and act on the calling thread's current device.
//
// Errors: every call returns Status. kDeviceError carries the driver's name and text, kOutOfMemory a failed
// allocation, kNotReady a query of unfinished work, kDeviceLost any call after the device became unusable.
// Threads: all functions may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/status.h"
#include "core/unique_handle.h"

namespace cudaep::device {

// Opaque handles. In the CUDA build they are the runtime's own (cudaStream_t and so on), so a pointer from the host
// can be used as it comes. A null stream is the legacy default stream.
using Stream = struct StreamHandle*;
using Event = struct EventHandle*;
using Graph = struct GraphHandle*;
using GraphExec = struct GraphExecHandle*;
using MemoryPool = struct MemoryPoolHandle*;

// The handle value CUDA gives the legacy default stream when it must differ from null.
inline const Stream kLegacyStream = reinterpret_cast<Stream>(0x1);

// ---- Devices ----------------------------------------------------------------------------------------------------

struct DeviceInfo;  // device/device_info.h

// 0 and OK where there is no driver or no device: the absence of a GPU is not an error.
Status GetDeviceCount(int* count);
// Never fails for an ordinal below the count. The reference stays valid for the life of the process.
Result<const DeviceInfo*> GetDeviceInfo(int ordinal);
Status GetDevice(int* ordinal);
Status SetDevice(int ordinal);
// CUDA version numbers as 1000 * major + 10 * minor; 0 when there is no driver. Never fails.
int DriverVersion();
int RuntimeVersion();
// Whether this build drives real GPUs ("cuda") or simulates them ("simulated").
const char* BackendName();

// ---- Memory -----------------------------------------------------------------------------------------------------

Status Malloc(void** pointer, size_t bytes);
Status Free(void* pointer);
// Stream-ordered allocation from the current device's default pool.
Status MallocAsync(void** pointer, size_t bytes, Stream stream);
Status FreeAsync(void* pointer, Stream stream);
// Page-locked host memory, usable by every device.
Status HostMalloc(void** pointer, size_t bytes);
Status HostFree(void* pointer);
Status MemGetInfo(size_t* free_bytes, size_t* total_bytes);

// A stream-ordered pool of its own, of memory on one device. It takes memory from the driver in steps and keeps what is
// freed: for the stream of the free at once, for others once the free has run or they wait for an event after it. It
// never makes one stream wait for another by itself. FreeAsync gives memory back to the pool it came from.
// MemGetInfo counts what a pool holds as taken.
struct MemoryPoolStats {
  size_t reserved_bytes = 0;  // taken from the driver and not given back
  size_t used_bytes = 0;      // allocated and not yet freed
};
// kNotSupported where the driver has no pools on that device.
Status MemoryPoolCreate(MemoryPool* pool, int ordinal);
// With allocations left it lives on, without a handle, until they are freed.
Status MemoryPoolDestroy(MemoryPool pool);
// On a stream of the pool's device.
Status MallocFromPoolAsync(void** pointer, size_t bytes, MemoryPool pool, Stream stream);
// What unused memory a pool may keep when the host synchronises with a stream, an event or the device. At first 0.
Status MemoryPoolSetReleaseThreshold(MemoryPool pool, size_t bytes);
// Gives unused memory back; at least `bytes_to_keep` stay reserved, and what queued frees have not released yet.
Status MemoryPoolTrim(MemoryPool pool, size_t bytes_to_keep);
Status MemoryPoolGetStats(MemoryPool pool, MemoryPoolStats* stats);

enum class PointerKind : uint8_t { kUnregisteredHost, kPinnedHost, kDevice, kManaged };
struct PointerInfo {
  PointerKind kind = PointerKind::kUnregisteredHost;
  int ordinal = -1;  // device the memory belongs to; -1 for unregistered host memory
};
Status GetPointerInfo(const void* pointer, PointerInfo* info);

// Direction is taken from the pointers. A copy from pageable memory returns after its source was read; a copy to
// pageable memory blocks until it is done.
Status MemcpyAsync(void* destination, const void* source, size_t bytes, Stream stream);
Status MemcpyPeerAsync(void* destination, int destination_ordinal, const void* source, int source_ordinal, size_t bytes,
                       Stream stream);
Status MemsetAsync(void* destination, int byte_value, size_t bytes, Stream stream);
Status CanAccessPeer(bool* can, int ordinal, int peer_ordinal);
Status EnablePeerAccess(int peer_ordinal);  // OK when already enabled

// ---- Streams and events -----------------------------------------------------------------------------------------

// How a stream stands to its device's legacy default stream.
enum class StreamKind : uint8_t {
  kNonBlocking,  // unordered with it
  kBlocking,     // waits for all earlier work of the legacy stream, which waits for all earlier work of such streams
};
Status StreamCreate(Stream* stream, StreamKind kind = StreamKind::kNonBlocking);
Status StreamDestroy(Stream stream);  // work already queued still runs
Status StreamSynchronize(Stream stream);
Status StreamQuery(Stream stream);  // OK when idle, kNotReady while busy
Status StreamWaitEvent(Stream stream, Event event);
Status StreamGetDevice(Stream stream, int* ordinal);
using HostFunction = void (*)(void* state);
Status LaunchHostFunc(Stream stream, HostFunction function, void* state);
Status DeviceSynchronize();

enum class EventKind : uint8_t { kOrderOnly, kTiming };
Status EventCreate(Event* event, EventKind kind);
Status EventDestroy(Event event);
Status EventRecord(Event event, Stream stream);
Status EventQuery(Event event);  // OK when reached, kNotReady before
Status EventSynchronize(Event event);
Status EventElapsedMs(float* milliseconds, Event begin, Event end);

// ---- Graphs -----------------------------------------------------------------------------------------------------

enum class CaptureMode : uint8_t { kGlobal, kThreadLocal, kRelaxed };
enum class CaptureState : uint8_t { kNone, kActive, kInvalidated };
Status StreamBeginCapture(Stream stream, CaptureMode mode);
// On an invalidated capture: an error and `*graph` null; the stream is usable again either way.
Status StreamEndCapture(Stream stream, Graph* graph);
Status StreamCaptureState(Stream stream, CaptureState* state);
// Swaps the calling thread's capture mode with `*mode`.
Status ThreadExchangeCaptureMode(CaptureMode* mode);
Status GraphInstantiate(GraphExec* exec, Graph graph);
// kFailedPrecondition when the topology differs; the exec is unchanged then.
Status GraphExecUpdate(GraphExec exec, Graph graph);
Status GraphLaunch(GraphExec exec, Stream stream);
Status GraphNodeCount(Graph graph, size_t* count);
Status GraphDestroy(Graph graph);
Status GraphExecDestroy(GraphExec exec);

// ---- Owners -----------------------------------------------------------------------------------------------------

template <class T, Status (*kRelease)(T)>
struct HandleTraits {
  using Type = T;
  static Type Null() { return nullptr; }
  static void Release(Type handle) { kRelease(handle).IgnoreError(); }
};
using UniqueStream = UniqueHandle<HandleTraits<Stream, StreamDestroy>>;
using UniqueEvent = UniqueHandle<HandleTraits<Event, EventDestroy>>;
using UniqueGraph = UniqueHandle<HandleTraits<Graph, GraphDestroy>>;
using UniqueGraphExec = UniqueHandle<HandleTraits<GraphExec, GraphExecDestroy>>;
using UniqueMemoryPool = UniqueHandle<HandleTraits<MemoryPool, MemoryPoolDestroy>>;
using UniqueDeviceMemory = UniqueHandle<HandleTraits<void*, Free>>;
using UniquePinnedMemory = UniqueHandle<HandleTraits<void*, HostFree>>;

// Makes `ordinal` current for a scope and restores the caller's device at its end.
class DeviceGuard {
 public:
  explicit DeviceGuard(int ordinal);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
  // Whether the switch worked; the previous device is restored in any case.
  const Status& status() const { return status_; }

 private:
  int previous_ = -1;  // -1: nothing to restore
  Status status_;
};

}  // namespace cudaep::device
