#include "abi/sync_stream.h"

#include "abi/thunk.h"

namespace cudaep::abi {
namespace {

// Created by the host for one Run: recorded on the producing stream, waited for by consumers.
class Notification : public OrtSyncNotificationImpl {
 public:
  Notification(int ordinal, device::Stream stream, device::UniqueEvent event)
      : OrtSyncNotificationImpl{}, ordinal_(ordinal), stream_(stream), event_(std::move(event)) {
    ort_version_supported = Host().version;
    Release = Thunk<&Notification::OnRelease>();
    Activate = Thunk<&Notification::OnActivate>();
    WaitOnDevice = Thunk<&Notification::OnWaitOnDevice>();
    WaitOnHost = Thunk<&Notification::OnWaitOnHost>();
  }

 private:
  void OnRelease() { delete this; }

  Status OnActivate() {
    device::DeviceGuard guard(ordinal_);
    CUDAEP_RETURN_IF_ERROR(guard.status());
    return device::EventRecord(event_.get(), stream_);
  }

  // A null consumer is the CPU: its kernels have no stream, so the calling thread waits.
  Status OnWaitOnDevice(OrtSyncStream* consumer) {
    void* handle = consumer != nullptr ? Host().ort->SyncStream_GetHandle(consumer) : nullptr;
    if (handle == nullptr) return OnWaitOnHost();
    return device::StreamWaitEvent(static_cast<device::Stream>(handle), event_.get());
  }

  Status OnWaitOnHost() { return device::EventSynchronize(event_.get()); }

  int ordinal_;
  device::Stream stream_;
  device::UniqueEvent event_;
};

}  // namespace

Result<SyncStream*> SyncStream::Create(std::shared_ptr<SessionState> state) {
  device::DeviceGuard guard(state->ordinal());
  CUDAEP_RETURN_IF_ERROR(guard.status());
  device::UniqueStream owned;
  device::Stream stream = nullptr;
  if (state->settings().has_user_stream) {
    stream = state->user_stream();
  } else {
    CUDAEP_RETURN_IF_ERROR(device::StreamCreate(owned.Receive()));
    stream = owned.get();
  }
  std::unique_ptr<SyncStream> created(new SyncStream(std::move(state), std::move(owned), stream));
  CUDAEP_RETURN_IF_ERROR(created->state_->streams().Add(created->context_.get()));
  return created.release();
}

SyncStream::SyncStream(std::shared_ptr<SessionState> state, device::UniqueStream owned, device::Stream stream)
    : OrtSyncStreamImpl{},
      state_(std::move(state)),
      owned_(std::move(owned)),
      context_(std::make_unique<StreamContext>(state_->ordinal(), stream)) {
  ort_version_supported = Host().version;
  Release = Thunk<&SyncStream::OnRelease>();
  GetHandle = Thunk<&SyncStream::OnGetHandle>();
  CreateNotification = Thunk<&SyncStream::OnCreateNotification>();
  Flush = Thunk<&SyncStream::OnFlush>();
  OnSessionRunEnd = Thunk<&SyncStream::OnOnSessionRunEnd>();
}

void SyncStream::OnRelease() {
  device::DeviceGuard guard(state_->ordinal());
  // Scratch memory and chunks of this stream may be in use until its work is done.
  device::StreamSynchronize(context_->stream()).IgnoreError();
  state_->streams().Remove(context_.get());
  if (owned_) state_->allocator().ReleaseStream(context_->stream());
  delete this;
}

Status SyncStream::OnCreateNotification(OrtSyncNotificationImpl** notification) {
  device::DeviceGuard guard(state_->ordinal());
  CUDAEP_RETURN_IF_ERROR(guard.status());
  device::UniqueEvent event;
  CUDAEP_RETURN_IF_ERROR(device::EventCreate(event.Receive(), device::EventKind::kOrderOnly));
  *notification = new Notification(state_->ordinal(), context_->stream(), std::move(event));
  return Status::Ok();
}

// Called at the end of a Run. The caller of a user stream orders its own work and waits when it wants to.
Status SyncStream::OnFlush() { return owned_ ? device::StreamSynchronize(context_->stream()) : Status::Ok(); }

}  // namespace cudaep::abi
