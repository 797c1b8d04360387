// Who gets a line when several registrations come and go.
#include "core/log.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>

#include "core/strings.h"

namespace cudaep {
namespace {

void Append(void* text, LogLevel level, std::string_view message) {
  *static_cast<std::string*>(text) += StrCat(static_cast<int>(level), message, " ");
}

TEST(Log, WithoutASinkIsOff) {
  EXPECT_FALSE(LogEnabled());
  Log(LogLevel::kError, "lost");
  std::string text;
  const LogSink sink(Append, &text);
  EXPECT_TRUE(LogEnabled());
  EXPECT_EQ(text, "");
}

TEST(Log, TheOldestLivingSinkIsInForce) {
  std::string first, second, third;
  std::optional<LogSink> a(std::in_place, Append, &first), b(std::in_place, Append, &second),
      c(std::in_place, Append, &third);
  Log(LogLevel::kInfo, "a", 1);
  b.reset();
  Log(LogLevel::kWarning, "a", 2);
  b.emplace(Append, &second);
  a.reset();
  Log(LogLevel::kInfo, "c");
  c.reset();
  Log(LogLevel::kInfo, "b");
  b.reset();
  Log(LogLevel::kInfo, "lost");
  EXPECT_EQ(first, "1a1 2a2 ");
  EXPECT_EQ(third, "1c ");
  EXPECT_EQ(second, "1b ");
  EXPECT_FALSE(LogEnabled());
}

// The host frees its logger right after the registration has ended.
TEST(Log, TheEndOfASinkWaitsForItsWriters) {
  struct State {
    std::atomic<bool> inside = false, leave = false, left = false;
  } state;
  const LogWriter writer = [](void* opaque, LogLevel, std::string_view) {
    auto& mine = *static_cast<State*>(opaque);
    mine.inside = true;
    while (!mine.leave) std::this_thread::yield();
    mine.left = true;
  };
  std::optional<LogSink> sink(std::in_place, writer, &state);
  std::thread logger([] { Log(LogLevel::kInfo, "slow"); });
  while (!state.inside) std::this_thread::yield();
  std::atomic<bool> ended = false;
  std::thread ender([&] {
    sink.reset();
    ended = true;
    EXPECT_TRUE(state.left);
  });
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  EXPECT_FALSE(ended);
  state.leave = true;
  logger.join();
  ender.join();
}

}  // namespace
}  // namespace cudaep
