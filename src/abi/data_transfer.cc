#include "abi/data_transfer.h"

#include "abi/allocation_failure.h"
#include "abi/forked.h"
#include "abi/host_tensor.h"
#include "abi/sync_stream.h"
#include "abi/thunk.h"
#include "device/device.h"
#include "memory/memory_registry.h"
#include "memory/relaxed_capture.h"
#include "runtime/captured_copy.h"

namespace cudaep::abi {
namespace {

// The GPU that carries out the copy: the destination's where it is one.
int OrdinalOfCopy(const OrtMemoryDevice* source, const OrtMemoryDevice* destination) {
  const OrtMemoryDevice* memory = IsInDeviceMemory(destination) || !IsInDeviceMemory(source) ? destination : source;
  return IsOurs(memory) ? static_cast<int>(Host().ep->MemoryDevice_GetDeviceId(memory)) : 0;
}

// Copies to pageable memory are done when they return.
Status NoteCopyTo(const void* destination, OrtSyncStream* stream) {
  device::PointerInfo info;
  CUDAEP_RETURN_IF_ERROR(device::GetPointerInfo(destination, &info));
  if (info.kind == device::PointerKind::kPinnedHost) SyncStream::HostCopyQueued(stream);
  return Status::Ok();
}

Status CopyOne(const OrtValue* source, OrtValue* destination, OrtSyncStream* stream) {
  const OrtApi& ort = *Host().ort;
  const void* from = nullptr;
  void* to = nullptr;
  size_t bytes = 0;
  CUDAEP_RETURN_IF_ORT_ERROR(ort.GetTensorSizeInBytes(source, &bytes));
  if (bytes == 0) return Status::Ok();
  CUDAEP_RETURN_IF_ORT_ERROR(ort.GetTensorData(source, &from));
  CUDAEP_RETURN_IF_ORT_ERROR(ort.GetTensorMutableData(destination, &to));
  if (from == nullptr || to == nullptr) {  // hosts differ in whether they look at what an allocator returned
    return TakeAllocationFailure(
        OutOfMemory("a copy of ", bytes, " bytes has no memory to ", from == nullptr ? "come from" : "go to"));
  }
  const OrtMemoryDevice* source_memory = Host().ep->Value_GetMemoryDevice(source);
  const OrtMemoryDevice* destination_memory = Host().ep->Value_GetMemoryDevice(destination);
  device::DeviceGuard guard(OrdinalOfCopy(source_memory, destination_memory));
  CUDAEP_RETURN_IF_ERROR(guard.status());
  const memory::RelaxedCapture relaxed;  // what is copied elsewhere does not end a capture of the thread's

  auto* handle = stream != nullptr ? static_cast<device::Stream>(ort.SyncStream_GetHandle(stream)) : nullptr;
  const bool feeds = !IsInDeviceMemory(source_memory) && IsInDeviceMemory(destination_memory);
  if (GraphRuns::AnyLive()) CUDAEP_RETURN_IF_ERROR(GraphRuns::CheckCopy(feeds));
  if (handle != nullptr) {
    if (SessionState::IsInRun()) SessionState::RunWorksOn(handle);
  } else {
    // Outside any stream, from what the Run may not have written yet (what a Loop ends with, by hosts before 1.31), or
    // to memory that its work before may still use.
    CUDAEP_RETURN_IF_ERROR(SessionState::AwaitRun());
  }
  if (IsInDeviceMemory(source_memory) && IsInDeviceMemory(destination_memory)) {
    CUDAEP_RETURN_IF_ERROR(
        device::MemcpyPeerAsync(to, static_cast<int>(Host().ep->MemoryDevice_GetDeviceId(destination_memory)), from,
                                static_cast<int>(Host().ep->MemoryDevice_GetDeviceId(source_memory)), bytes, handle));
  } else {
    if (handle != nullptr) CUDAEP_RETURN_IF_ERROR(RefuseCapturedPageable(feeds ? from : to, handle));
    CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(to, from, bytes, handle));
    if (handle != nullptr && feeds) CUDAEP_RETURN_IF_ERROR(SyncStream::InputCopyQueued(stream));
    if (handle != nullptr && !IsInDeviceMemory(destination_memory)) CUDAEP_RETURN_IF_ERROR(NoteCopyTo(to, stream));
    for (const auto& [pointer, memory] : {std::pair<const void*, const OrtMemoryDevice*>(from, source_memory),
                                          std::pair<const void*, const OrtMemoryDevice*>(to, destination_memory)}) {
      if (stream == nullptr || !IsOurs(memory) || IsInDeviceMemory(memory)) continue;
      memory::PinnedMemoryUsedOn(static_cast<int>(Host().ep->MemoryDevice_GetDeviceId(memory)), pointer, handle);
    }
  }
  return stream == nullptr ? device::StreamSynchronize(nullptr) : Status::Ok();
}

}  // namespace

DataTransfer::DataTransfer() : OrtDataTransferImpl{} {
  ort_version_supported = Host().version;
  Release = Thunk<&DataTransfer::OnRelease>();
  CanCopy = Thunk<&DataTransfer::OnCanCopy>();
  CopyTensors = Thunk<&DataTransfer::OnCopyTensors>();
}

bool DataTransfer::OnCanCopy(const OrtMemoryDevice* source, const OrtMemoryDevice* destination) const {
  return (IsOurs(source) && (IsOurs(destination) || IsHost(destination))) || (IsHost(source) && IsOurs(destination));
}

Status DataTransfer::OnCopyTensors(const OrtValue** sources, OrtValue** destinations, OrtSyncStream** streams,
                                   size_t count) {
  CUDAEP_RETURN_IF_ERROR(CheckNotForked());
  for (size_t i = 0; i < count; ++i) {
    CUDAEP_RETURN_IF_ERROR(CopyOne(sources[i], destinations[i], streams != nullptr ? streams[i] : nullptr));
  }
  return Status::Ok();
}

}  // namespace cudaep::abi
