#include "abi/ep.h"

#include "abi/api_version.h"
#include "abi/capability.h"
#include "abi/sync_stream.h"
#include "abi/thunk.h"

namespace cudaep::abi {

Ep::Ep(Factory& factory, std::shared_ptr<SessionState> state, const OrtLogger* logger)
    : OrtEp{}, factory_(factory), state_(std::move(state)), logger_(logger) {
  ort_version_supported = Host().version;
  GetName = Thunk<&Ep::OnGetName>();
  GetCapability = Thunk<&Ep::OnGetCapability>();
  GetKernelRegistry = Thunk<&Ep::OnGetKernelRegistry>();
  CreateSyncStreamForDevice = Thunk<&Ep::OnCreateSyncStreamForDevice>();
  IsConcurrentRunSupported = Thunk<&Ep::OnIsConcurrentRunSupported>();
  if (Host().version >= kApiSync) Sync = Thunk<&Ep::OnSync>();
}

Status Ep::OnGetCapability(const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
  return ClaimNodes(graph, support, *state_, factory_.ep_name(), logger_);
}

Status Ep::OnGetKernelRegistry(const OrtKernelRegistry** registry) {
  CUDAEP_ASSIGN_OR_RETURN(*registry, factory_.KernelRegistry());
  return Status::Ok();
}

Status Ep::OnCreateSyncStreamForDevice(const OrtMemoryDevice*, OrtSyncStreamImpl** stream) {
  CUDAEP_ASSIGN_OR_RETURN(*stream, SyncStream::Create(state_));
  return Status::Ok();
}

// Scratch memory belongs to a stream, so Runs may overlap exactly when each has a stream of its own.
Status Ep::OnIsConcurrentRunSupported(bool* supported) {
  *supported = !state_->settings().has_user_stream && !state_->settings().unified_stream;
  return Status::Ok();
}

Status Ep::OnSync() {
  device::DeviceGuard guard(state_->ordinal());
  CUDAEP_RETURN_IF_ERROR(guard.status());
  return device::DeviceSynchronize();
}

}  // namespace cudaep::abi
