// The host's stream and notification objects over device streams and events.
//
// A stream owns its context (library handles, scratch memory) and is known to its session's table while it lives. The
// one stream that all Runs of a session share (the user's, or the unified one) is wrapped: it and its context belong to
// the session's state. A user's stream is never owned, and no call here waits for it, apart from the release of an
// object that an application made around it.
#pragma once

#include <memory>

#include "abi/host.h"
#include "abi/session_state.h"

namespace cudaep::abi {

class SyncStream : public OrtSyncStreamImpl {
 public:
  enum class Maker : uint8_t {
    kSession,
    kApplication,  // outside any session: Runs of any session may be given the stream
  };
  // A new stream of the state's device, or a wrapper of its only stream. What an application makes has a state of its
  // own.
  static Result<SyncStream*> Create(std::shared_ptr<SessionState> state, Maker maker);

  // A copy into pinned memory was queued on a stream of the host's; nothing happens where that is not one of ours.
  static void HostCopyQueued(const OrtSyncStream* stream);
  // An input was copied to the device on a stream of the host's. Where a Run has several, nodes on the others may read
  // it: the host flushes the stream before it starts them. What was copied outside of a Run, when it was bound, is
  // waited for here: nobody knows on which stream the Run will be.
  static Status InputCopyQueued(const OrtSyncStream* stream);

 private:
  SyncStream(std::shared_ptr<SessionState> state, Maker maker, device::UniqueStream owned);
  static const SyncStream* Of(const OrtSyncStream* stream);  // null for other providers'
  Status Init();
  void OnRelease();
  void* OnGetHandle() { return stream_; }
  Status OnCreateNotification(OrtSyncNotificationImpl** notification);
  Status OnFlush();
  Status OnOnSessionRunEnd();

  std::shared_ptr<SessionState> state_;
  const Maker maker_;
  device::UniqueStream owned_;                    // none: the state's only stream
  device::Stream stream_;                         // owned_, or the state's
  std::unique_ptr<StreamContext> owned_context_;  // of an own stream
  StreamContext* context_ = nullptr;              // the same, or the state's
  bool run_ends_ = false;                         // between the end of a Run and the flush that follows it
};

}  // namespace cudaep::abi
