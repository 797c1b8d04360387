#include "core/log.h"

namespace cudaep {
namespace {

LogSink g_sink = nullptr;
void* g_sink_state = nullptr;

}  // namespace

void SetLogSink(LogSink sink, void* state) {
  g_sink = sink;
  g_sink_state = state;
}

bool LogEnabled() { return g_sink != nullptr; }

void LogText(LogLevel level, std::string_view message) {
  if (g_sink != nullptr) g_sink(g_sink_state, level, message);
}

}  // namespace cudaep
