#include "runtime/stream_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace cudaep {
namespace {

device::Stream Handle(uintptr_t value) { return reinterpret_cast<device::Stream>(value); }

TEST(StreamTable, FindsWhatWasAddedUntilItIsRemoved) {
  StreamTable table;
  StreamContext a(0, Handle(0x1000)), b(0, device::kLegacyStream);
  ASSERT_TRUE(table.Add(&a).ok());
  ASSERT_TRUE(table.Add(&b).ok());
  EXPECT_EQ(table.Find(Handle(0x1000)), &a);
  EXPECT_EQ(table.Find(device::kLegacyStream), &b);
  EXPECT_EQ(table.Find(Handle(0x2000)), nullptr);
  table.Remove(&a);
  EXPECT_EQ(table.Find(Handle(0x1000)), nullptr);
}

TEST(StreamTable, TheNewestContextOfAStreamWins) {
  StreamTable table;
  StreamContext first(0, Handle(0x1000)), second(0, Handle(0x1000));
  ASSERT_TRUE(table.Add(&first).ok());
  ASSERT_TRUE(table.Add(&second).ok());
  EXPECT_EQ(table.Find(Handle(0x1000)), &second);
  table.Remove(&first);
  EXPECT_EQ(table.Find(Handle(0x1000)), &second);
}

TEST(StreamTable, ThousandsOfStreamsComeAndGo) {
  StreamTable table;
  for (uintptr_t i = 1; i <= 10000; ++i) {
    StreamContext context(0, Handle(i * 64));
    ASSERT_TRUE(table.Add(&context).ok());
    ASSERT_EQ(table.Find(Handle(i * 64)), &context);
    table.Remove(&context);
  }
}

TEST(StreamTable, RefusesMoreThanItsCapacity) {
  StreamTable table;
  std::vector<std::unique_ptr<StreamContext>> contexts;
  for (uintptr_t i = 1; i <= StreamTable::kCapacity; ++i) {
    contexts.push_back(std::make_unique<StreamContext>(0, Handle(i * 64)));
    ASSERT_TRUE(table.Add(contexts.back().get()).ok());
  }
  StreamContext one_more(0, Handle(uintptr_t{1} << 40));
  EXPECT_EQ(table.Add(&one_more).code(), StatusCode::kFailedPrecondition);
  for (const auto& context : contexts) EXPECT_EQ(table.Find(context->stream()), context.get());
}

TEST(StreamTable, ReadersRunBesideWriters) {
  StreamTable table;
  StreamContext stable(0, Handle(0x40));
  ASSERT_TRUE(table.Add(&stable).ok());
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop) ASSERT_EQ(table.Find(Handle(0x40)), &stable);
  });
  for (uintptr_t i = 2; i < 5000; ++i) {
    StreamContext context(0, Handle(i * 64));
    ASSERT_TRUE(table.Add(&context).ok());
    table.Remove(&context);
  }
  stop = true;
  reader.join();
}

}  // namespace
}  // namespace cudaep
