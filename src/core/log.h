// Logging through one sink that the outer layer installs (the host's logger, or a test's).
//
// Threads: SetLogSink must not race with Log; the plug-in installs its sink once, before any session exists.
// Destructors do not log: the host's logger may be gone by then.
#pragma once

#include <string_view>

#include "core/strings.h"

namespace cudaep {

enum class LogLevel : int { kVerbose = 0, kInfo = 1, kWarning = 2, kError = 3 };

using LogSink = void (*)(void* state, LogLevel level, std::string_view message);

// Null switches logging off (the default).
void SetLogSink(LogSink sink, void* state);

void LogText(LogLevel level, std::string_view message);
bool LogEnabled();

// Concatenates its arguments into one line and hands it to the sink.
template <class... Args>
void Log(LogLevel level, const Args&... args) {
  if (LogEnabled()) LogText(level, StrCat(args...));
}

}  // namespace cudaep
