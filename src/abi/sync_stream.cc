#include "abi/sync_stream.h"

#include "abi/thunk.h"
#include "memory/memory_registry.h"
#include "memory/relaxed_capture.h"

namespace cudaep::abi {
namespace {

// Created by the host for one Run: recorded on the producing stream, waited for by consumers.
class Notification : public OrtSyncNotificationImpl {
 public:
  Notification(StreamContext& producer, device::UniqueEvent event)
      : OrtSyncNotificationImpl{}, producer_(producer), event_(std::move(event)) {
    ort_version_supported = Host().version;
    Release = Thunk<&Notification::OnRelease>();
    Activate = Thunk<&Notification::OnActivate>();
    WaitOnDevice = Thunk<&Notification::OnWaitOnDevice>();
    WaitOnHost = Thunk<&Notification::OnWaitOnHost>();
  }

 private:
  void OnRelease() { delete this; }

  Status OnActivate() {
    device::DeviceGuard guard(producer_.ordinal());
    CUDAEP_RETURN_IF_ERROR(guard.status());
    device::CaptureState capture = device::CaptureState::kNone;
    CUDAEP_RETURN_IF_ERROR(device::StreamCaptureState(producer_.stream(), &capture));
    captured_ = capture != device::CaptureState::kNone;
    copies_ = producer_.host_copies_queued();
    return device::EventRecord(event_.get(), producer_.stream());
  }

  // A null consumer is the CPU: its kernels have no stream, so the calling thread waits.
  Status OnWaitOnDevice(OrtSyncStream* consumer) {
    void* handle = consumer != nullptr ? Host().ort->SyncStream_GetHandle(consumer) : nullptr;
    if (handle == nullptr) return OnWaitOnHost();
    return device::StreamWaitEvent(static_cast<device::Stream>(handle), event_.get());
  }

  Status OnWaitOnHost() {
    if (captured_) {
      return FailedPrecondition("a node on the CPU waits for work that is being captured into a CUDA graph");
    }
    const memory::RelaxedCapture relaxed;  // the thread may be capturing another stream
    CUDAEP_RETURN_IF_ERROR(device::EventSynchronize(event_.get()));
    producer_.HostCopiesDone(copies_);
    return Status::Ok();
  }

  StreamContext& producer_;
  bool captured_ = false;  // the event is a part of a graph
  uint64_t copies_ = 0;    // queued before the event
  device::UniqueEvent event_;
};

}  // namespace

Result<SyncStream*> SyncStream::Create(std::shared_ptr<SessionState> state, Maker maker) {
  device::DeviceGuard guard(state->ordinal());
  CUDAEP_RETURN_IF_ERROR(guard.status());
  device::UniqueStream owned;
  if (state->only_stream() == nullptr) {
    const bool ordered = state->settings().order_with_legacy_stream;
    const auto kind = ordered ? device::StreamKind::kBlocking : device::StreamKind::kNonBlocking;
    CUDAEP_RETURN_IF_ERROR(device::StreamCreate(owned.Receive(), kind));
  }
  std::unique_ptr<SyncStream> created(new SyncStream(std::move(state), maker, std::move(owned)));
  CUDAEP_RETURN_IF_ERROR(created->Init());
  return created.release();
}

SyncStream::SyncStream(std::shared_ptr<SessionState> state, Maker maker, device::UniqueStream owned)
    : OrtSyncStreamImpl{},
      state_(std::move(state)),
      maker_(maker),
      owned_(std::move(owned)),
      stream_(owned_ ? owned_.get() : state_->only_stream()),
      owned_context_(owned_ ? std::make_unique<StreamContext>(state_->memory(), stream_) : nullptr) {
  ort_version_supported = Host().version;
  Release = Thunk<&SyncStream::OnRelease>();
  GetHandle = Thunk<&SyncStream::OnGetHandle>();
  CreateNotification = Thunk<&SyncStream::OnCreateNotification>();
  Flush = Thunk<&SyncStream::OnFlush>();
  OnSessionRunEnd = Thunk<&SyncStream::OnOnSessionRunEnd>();
}

Status SyncStream::Init() {
  if (owned_) {
    context_ = owned_context_.get();
    CUDAEP_RETURN_IF_ERROR(context_->TakeHandles(state_->libraries()));
    context_->SetCommunicator(state_->communicator());
    CUDAEP_RETURN_IF_ERROR(state_->streams().Add(context_));
    state_->memory()->AddStream(stream_);
    state_->StreamMade();
  } else {
    CUDAEP_ASSIGN_OR_RETURN(context_, state_->ContextOf(stream_));
  }
  if (maker_ == Maker::kApplication) SessionState::ApplicationHas(state_->ordinal(), stream_);
  return Status::Ok();
}

void SyncStream::OnRelease() {
  const int ordinal = state_->ordinal();
  device::DeviceGuard guard(ordinal);
  // Scratch memory and chunks of this stream may be in use until its work is done.
  if (owned_ || maker_ == Maker::kApplication) device::StreamSynchronize(stream_).IgnoreError();
  if (maker_ == Maker::kApplication) SessionState::ApplicationReleases(ordinal, stream_);
  if (owned_) {
    state_->streams().Remove(context_);
    owned_context_.reset();
    memory::StreamEnded(ordinal, stream_);
  }
  delete this;
}

Status SyncStream::OnCreateNotification(OrtSyncNotificationImpl** notification) {
  device::DeviceGuard guard(state_->ordinal());
  CUDAEP_RETURN_IF_ERROR(guard.status());
  device::UniqueEvent event;
  CUDAEP_RETURN_IF_ERROR(device::EventCreate(event.Receive(), device::EventKind::kOrderOnly));
  *notification = new Notification(*context_, std::move(event));
  return Status::Ok();
}

Status SyncStream::OnOnSessionRunEnd() {
  run_ends_ = true;
  return Status::Ok();
}

// At the end of a Run everything is waited for, unless the stream is the user's, who orders the work and waits when it
// wants to. The host also flushes inside a Run: after each iteration of a Loop, to read the condition, and before its
// nodes start, for what was copied to the device. So there are copies that are waited for, or nothing.
Status SyncStream::OnFlush() {
  const bool users = state_->settings().has_user_stream, ends = std::exchange(run_ends_, false);
  if (ends && users) {
    context_->HostCopiesDone(context_->host_copies_queued());  // the user waits before reading them
    return Status::Ok();
  }
  // A session counts copies on an application's stream in a context of its own.
  if (!ends && maker_ != Maker::kApplication && !context_->HostCopiesPending()) return Status::Ok();
  if (users || maker_ == Maker::kApplication) {
    device::CaptureState capture = device::CaptureState::kNone;
    CUDAEP_RETURN_IF_ERROR(device::StreamCaptureState(stream_, &capture));
    if (capture != device::CaptureState::kNone) {
      if (ends || !context_->HostCopiesPending()) return Status::Ok();
      return FailedPrecondition("the host reads back inside the Run, which cannot be captured into a CUDA graph");
    }
  }
  const memory::RelaxedCapture relaxed;  // nor does waiting here end a capture elsewhere
  const uint64_t copies = context_->host_copies_queued();
  if (maker_ == Maker::kApplication) {
    // Sessions of other memory have used the stream too. Their scratch blocks are theirs: what such a session has
    // outgrown goes when it grows again, or shrinks.
    memory::StreamWait wait(state_->ordinal(), stream_);
    CUDAEP_RETURN_IF_ERROR(device::StreamSynchronize(stream_));
    wait.Reached();
  } else {
    const memory::DeviceMemory::Moment before =
        state_->memory()->Mark(stream_);  // other threads may queue work meanwhile
    CUDAEP_RETURN_IF_ERROR(device::StreamSynchronize(stream_));
    state_->memory()->Reached(before);
  }
  context_->HostCopiesDone(copies);
  context_->workspace().DropOutgrown();
  return Status::Ok();
}

const SyncStream* SyncStream::Of(const OrtSyncStream* stream) {
  const OrtSyncStreamImpl* const implementation = Host().ep->SyncStream_GetImpl(stream);
  const decltype(OrtSyncStreamImpl::Flush) ours = Thunk<&SyncStream::OnFlush>();
  const bool is_ours = implementation != nullptr && implementation->Flush == ours;
  return is_ours ? static_cast<const SyncStream*>(implementation) : nullptr;
}

void SyncStream::HostCopyQueued(const OrtSyncStream* stream) {
  if (const SyncStream* const own = Of(stream)) own->context_->HostCopyQueued();
}

Status SyncStream::InputCopyQueued(const OrtSyncStream* stream) {
  const SyncStream* const own = Of(stream);
  if (own == nullptr || own->maker_ == Maker::kApplication || !own->owned_) return Status::Ok();
  if (!SessionState::IsInRun()) return device::StreamSynchronize(own->stream_);
  if (*own->state_->spread()) own->context_->HostCopyQueued();
  return Status::Ok();
}

}  // namespace cudaep::abi
