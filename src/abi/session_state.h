// What one session's provider, streams and kernels share: settings, the stream table, the allocator.
//
// Reference-counted: a stream may outlive the provider object that made it.
// Threads: immutable apart from the stream table and the foreign contexts, which guard themselves.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "memory/allocator.h"
#include "runtime/settings.h"
#include "runtime/stream_table.h"

namespace cudaep::abi {

class SessionState {
 public:
  SessionState(const Settings& settings, std::shared_ptr<memory::Allocator> allocator, bool several_devices)
      : settings_(settings), allocator_(std::move(allocator)), several_devices_(several_devices) {}

  int ordinal() const { return settings_.device_ordinal; }
  const Settings& settings() const { return settings_; }
  memory::Allocator& allocator() const { return *allocator_; }
  StreamTable& streams() { return streams_; }
  // Only with several GPUs can a thread's current device differ from ours.
  bool several_devices() const { return several_devices_; }
  // Null, the legacy default stream, as the value that differs from "no stream".
  device::Stream user_stream() const {
    auto* stream = static_cast<device::Stream>(settings_.user_stream);
    return stream == nullptr ? device::kLegacyStream : stream;
  }

  // The context of a stream; one made outside this session (a caller's, a region's) gets one here at first sight.
  Result<StreamContext*> ContextOf(device::Stream stream) {
    if (StreamContext* context = streams_.Find(stream)) [[likely]]
      return context;
    return Adopt(stream);
  }

 private:
  Result<StreamContext*> Adopt(device::Stream stream);

  const Settings settings_;
  std::shared_ptr<memory::Allocator> allocator_;
  const bool several_devices_;
  StreamTable streams_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<StreamContext>> foreign_;  // guarded by mutex_
};

}  // namespace cudaep::abi
