#include "core/log.h"

#include <atomic>
#include <mutex>
#include <shared_mutex>

namespace cudaep {
namespace {

// Writers hold it shared, so that a sink's end waits for those inside.
std::shared_mutex g_mutex;
std::atomic<LogSink*> g_oldest =
    nullptr;  // changed under g_mutex alone; read without it to see whether anybody listens

}  // namespace

LogSink::LogSink(LogWriter writer, void* state) : writer_(writer), state_(state) {
  std::lock_guard lock(g_mutex);
  LogSink* last = g_oldest;
  if (last == nullptr) {
    g_oldest = this;
    return;
  }
  while (last->next_ != nullptr) last = last->next_;
  last->next_ = this;
}

LogSink::~LogSink() {
  std::lock_guard lock(g_mutex);
  if (g_oldest == this) {
    g_oldest = next_;
    return;
  }
  LogSink* before = g_oldest;
  while (before->next_ != this) before = before->next_;
  before->next_ = next_;
}

bool LogEnabled() { return g_oldest.load(std::memory_order_relaxed) != nullptr; }

void LogText(LogLevel level, std::string_view message) {
  std::shared_lock lock(g_mutex);
  if (const LogSink* sink = g_oldest) sink->writer_(sink->state_, level, message);
}

}  // namespace cudaep
