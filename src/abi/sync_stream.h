// The host's stream and notification objects over device streams and events.
//
// A stream owns its context (library handles, scratch memory) and is known to its session's table while it lives. A
// user's stream is wrapped, never owned, and no call here waits for it.
#pragma once

#include <memory>

#include "abi/host.h"
#include "abi/session_state.h"

namespace cudaep::abi {

class SyncStream : public OrtSyncStreamImpl {
 public:
  // A new stream of the state's device, or a wrapper of its user stream. `state` without a table (a stream made
  // outside any session) is allowed.
  static Result<SyncStream*> Create(std::shared_ptr<SessionState> state);

 private:
  SyncStream(std::shared_ptr<SessionState> state, device::UniqueStream owned, device::Stream stream);
  void OnRelease();
  void* OnGetHandle() { return context_->stream(); }
  Status OnCreateNotification(OrtSyncNotificationImpl** notification);
  Status OnFlush();
  Status OnOnSessionRunEnd() { return Status::Ok(); }

  std::shared_ptr<SessionState> state_;
  device::UniqueStream owned_;
  std::unique_ptr<StreamContext> context_;
};

}  // namespace cudaep::abi
