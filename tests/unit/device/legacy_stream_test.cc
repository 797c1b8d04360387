// The legacy default stream: ordered with blocking streams both ways, with others not at all.
#include "device_fixture.h"

namespace cudaep::device::testing {
namespace {

class LegacyStreamTest : public DeviceTest {
 protected:
  static UniqueStream Blocking() {
    UniqueStream created;
    EXPECT_OK(StreamCreate(created.Receive(), StreamKind::kBlocking));
    return created;
  }
  static std::vector<sim::Configuration> EveryMode() {
    std::vector<sim::Configuration> modes{With(sim::Mode::kLate), With(sim::Mode::kEager)};
    for (uint64_t seed = 0; seed < 20; ++seed) modes.push_back(With(sim::Mode::kRandom, seed));
    return modes;
  }
};

TEST_F(LegacyStreamTest, BlockingStreamsWaitForItsWork) {
  for (const auto& mode : EveryMode()) {
    Start(mode);
    const UniqueStream blocking = Blocking();
    float* a = Allocate<float>(64);
    float* b = Allocate<float>(64);
    for (const Stream legacy : {Stream{nullptr}, kLegacyStream}) {
      ASSERT_OK(LaunchFill(legacy, a, 3, 64));
      ASSERT_OK(LaunchAdd<float>(blocking.get(), a, a, b, 64));
      ASSERT_OK(LaunchFill(legacy, a, 7, 64));  // must not overtake the read of a
      EXPECT_EQ(Download(b, 64, blocking.get()), std::vector<float>(64, 6)) << "seed " << mode.seed;
    }
  }
}

TEST_F(LegacyStreamTest, ItWaitsForAllBlockingStreams) {
  for (const auto& mode : EveryMode()) {
    Start(mode);
    const UniqueStream first = Blocking(), second = Blocking();
    float* a = Allocate<float>(64);
    float* b = Allocate<float>(64);
    float* sum = Allocate<float>(64);
    ASSERT_OK(LaunchFill(first.get(), a, 3, 64));
    ASSERT_OK(LaunchFill(second.get(), b, 4, 64));
    ASSERT_OK(LaunchAdd<float>(nullptr, a, b, sum, 64));
    EXPECT_EQ(Download(sum, 64, kLegacyStream), std::vector<float>(64, 7)) << "seed " << mode.seed;
  }
}

// What runs late shows that the wait is there and not only assumed by the checks.
TEST_F(LegacyStreamTest, OnlyBlockingStreamsBringItsWorkAlong) {
  const UniqueStream blocking = Blocking();
  float* early = AllocatePinned<float>(1);
  float* other = AllocatePinned<float>(2);
  early[0] = 0;
  ASSERT_OK(LaunchFill(nullptr, early, 1, 1));
  ASSERT_OK(LaunchFill(stream(), other, 2, 1));
  ASSERT_OK(StreamSynchronize(stream()));
  EXPECT_EQ(early[0], 0);
  ASSERT_OK(LaunchFill(blocking.get(), other + 1, 3, 1));
  ASSERT_OK(StreamSynchronize(blocking.get()));
  EXPECT_EQ(early[0], 1);
}

TEST_F(LegacyStreamTest, OtherStreamsAreNotOrderedWithIt) {
  float* a = Allocate<float>(64);
  float* b = Allocate<float>(64);
  ASSERT_OK(LaunchFill(nullptr, a, 3, 64));
  EXPECT_FAILS(LaunchAdd<float>(stream(), a, a, b, 64), kDeviceError, "unordered access");
  ASSERT_OK(LaunchFill(stream(), b, 3, 64));
  EXPECT_FAILS(LaunchAdd<float>(nullptr, b, b, b, 64), kDeviceError, "unordered access");
}

TEST_F(LegacyStreamTest, BlockingStreamsAreOrderedAmongThemselvesOnlyThroughIt) {
  const UniqueStream first = Blocking(), second = Blocking();
  float* a = Allocate<float>(64);
  float* b = Allocate<float>(64);
  ASSERT_OK(LaunchFill(first.get(), a, 3, 64));
  EXPECT_FAILS(LaunchAdd<float>(second.get(), a, a, b, 64), kDeviceError, "unordered access");
  ASSERT_OK(MemsetAsync(b, 0, 64 * sizeof(float), nullptr));
  ASSERT_OK(LaunchAdd<float>(second.get(), a, a, b, 64));
  EXPECT_EQ(Download(b, 64, second.get()), std::vector<float>(64, 6));
}

TEST_F(LegacyStreamTest, AnEventOfABlockingStreamStandsForItsWorkToo) {
  const UniqueStream blocking = Blocking();
  UniqueEvent event;
  ASSERT_OK(EventCreate(event.Receive(), EventKind::kOrderOnly));
  float* a = Allocate<float>(64);
  float* b = Allocate<float>(64);
  ASSERT_OK(LaunchFill(nullptr, a, 3, 64));
  ASSERT_OK(EventRecord(event.get(), blocking.get()));
  ASSERT_OK(StreamWaitEvent(stream(), event.get()));
  ASSERT_OK(LaunchAdd<float>(stream(), a, a, b, 64));
  EXPECT_EQ(Download(b, 64, stream()), std::vector<float>(64, 6));
}

TEST_F(LegacyStreamTest, ADestroyedBlockingStreamIsStillWaitedFor) {
  float* a = Allocate<float>(64);
  float* b = Allocate<float>(64);
  {
    const UniqueStream temporary = Blocking();
    ASSERT_OK(LaunchFill(temporary.get(), a, 3, 64));
  }
  ASSERT_OK(LaunchAdd<float>(nullptr, a, a, b, 64));
  EXPECT_EQ(Download(b, 64, kLegacyStream), std::vector<float>(64, 6));
}

TEST_F(LegacyStreamTest, EachDeviceHasItsOwn) {
  auto two = With(sim::Mode::kLate);
  two.devices = 2;
  Start(two);
  const UniqueStream blocking = Blocking();
  float* other = AllocatePinned<float>(2);
  other[0] = 0;
  {
    const DeviceGuard guard(1);
    ASSERT_OK(LaunchFill(nullptr, other, 5, 1));
  }
  ASSERT_OK(LaunchFill(blocking.get(), other + 1, 1, 1));
  ASSERT_OK(StreamSynchronize(blocking.get()));
  EXPECT_EQ(other[0], 0);
}

TEST_F(LegacyStreamTest, TheOrderCostsNoEventsAndNoSynchronisation) {
  const UniqueStream blocking = Blocking();
  float* a = Allocate<float>(64);
  const auto before = sim::Snapshot();
  for (int i = 0; i < 100; ++i) {
    ASSERT_OK(LaunchFill(nullptr, a, 1, 64));
    ASSERT_OK(LaunchFill(blocking.get(), a, 2, 64));
  }
  const auto spent = sim::Snapshot() - before;
  EXPECT_EQ(spent.launches, 200u);
  EXPECT_EQ(spent.event_records + spent.event_waits + spent.synchronizations(), 0u);
  EXPECT_EQ(Download(a, 1, blocking.get())[0], 2);
}

}  // namespace
}  // namespace cudaep::device::testing
