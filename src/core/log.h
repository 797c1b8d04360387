// Logging through a sink that an outer layer installs (the host's logger, or a test's).
//
// Each registration of the plug-in owns a LogSink for its life. The oldest one living is in force; the others wait for
// their turn, so a second registration, or one that fails, neither silences nor re-routes the first.
// Threads: everything here may be called from any thread at any time. A line that finds no sink is dropped: destructors
// and threads that outlive the host's logger may log too.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/strings.h"

namespace cudaep {

enum class LogLevel : uint8_t { kVerbose = 0, kInfo = 1, kWarning = 2, kError = 3 };

using LogWriter = void (*)(void* state, LogLevel level, std::string_view message);

// Installed from construction to destruction, and immutable. After the destructor has returned the writer neither runs
// nor will be called again; so a writer must not destroy a sink. Several threads may be in one writer.
class LogSink {
 public:
  LogSink(LogWriter writer, void* state);
  ~LogSink();
  LogSink(const LogSink&) = delete;
  LogSink& operator=(const LogSink&) = delete;

 private:
  friend void LogText(LogLevel level, std::string_view message);
  const LogWriter writer_;
  void* const state_;
  LogSink* next_ = nullptr;  // the next younger one
};

void LogText(LogLevel level, std::string_view message);
bool LogEnabled();

// Concatenates its arguments into one line and hands it to the sink.
template <class... Args>
void Log(LogLevel level, const Args&... args) {
  if (LogEnabled()) LogText(level, StrCat(args...));
}

}  // namespace cudaep
