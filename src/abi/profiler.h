// The host's profiler of a session or of one Run: GPU time in its profile.
//
// The host says when each of its events begins and ends on a thread; what that thread gives the device meanwhile is the
// event's (runtime/profiler.h). At the end every kernel, copy and fill becomes an event of the category "Kernel", on
// the host's clock; its arguments say which node, which call of it, exact times, and what the node's plan states.
// Ownership: the host's, until it calls Release; shares the session's state. Threads: as the host says, StartEvent and
// StopEvent on any.
// Failure: where GPU times cannot be had the log says so once in the process, and the host's profile is what it would
// be without us.
#pragma once

#include <memory>
#include <vector>

#include "abi/host.h"
#include "abi/session_state.h"
#include "runtime/profiler.h"

namespace cudaep::abi {

class EpProfiler : public OrtEpProfilerImpl {
 public:
  explicit EpProfiler(std::shared_ptr<SessionState> state);
  EpProfiler(const EpProfiler&) = delete;
  EpProfiler& operator=(const EpProfiler&) = delete;

 private:
  Status OnStartProfiling(int64_t offset_ns);
  Status OnStartEvent(uint64_t event);
  Status OnStopEvent(uint64_t event, const OrtProfilingEvent* description);
  Status OnEndProfiling(OrtProfilingEventsContainer* events);
  void OnRelease() { delete this; }
  Status Report(const profile::ProfiledEvents& found, OrtProfilingEventsContainer* events) const;

  const std::shared_ptr<SessionState> state_;
  profile::Profiler profiler_;
  int64_t offset_ns_ = 0;  // of the host's clock at the start
  uint64_t begin_ns_ = 0;  // of the trace's
};

}  // namespace cudaep::abi
