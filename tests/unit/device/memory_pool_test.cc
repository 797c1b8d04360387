// Memory pools: what they take and keep, who may reuse what, and what happens to them in the end.
#include "device/sim/memory_pool.h"

#include <cmath>

#include "device/sim/sanitizers.h"
#include "device_fixture.h"

namespace cudaep::device::testing {
namespace {

constexpr size_t kStep = sim::kPoolStepBytes;

class MemoryPoolTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    ASSERT_OK(MemoryPoolCreate(pool_.Receive(), 0));
    sim::ResetCounters();
  }
  void TearDown() override {
    pool_.Reset();
    DeviceTest::TearDown();
  }

  float* FromPool(size_t bytes, Stream on) {
    void* pointer = nullptr;
    const Status status = MallocFromPoolAsync(&pointer, bytes, pool_.get(), on);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return static_cast<float*>(pointer);
  }
  MemoryPoolStats Stats() {
    MemoryPoolStats stats;
    EXPECT_OK(MemoryPoolGetStats(pool_.get(), &stats));
    return stats;
  }

  UniqueMemoryPool pool_;
};

TEST_F(MemoryPoolTest, GrowsInStepsAndTellsHitsFromGrowth) {
  float* first = FromPool(1000, stream());
  EXPECT_EQ(Stats().reserved_bytes, kStep);
  EXPECT_EQ(Stats().used_bytes, 1024u);
  float* second = FromPool(1000, stream());
  EXPECT_NE(first, second);
  EXPECT_EQ(sim::Snapshot().pool_growths, 1u);
  EXPECT_EQ(sim::Snapshot().async_allocations, 2u);
  FromPool(kStep, stream());
  EXPECT_EQ(Stats().reserved_bytes, 2 * kStep);
  EXPECT_EQ(sim::Snapshot().pool_growths, 2u);
  EXPECT_EQ(sim::Snapshot().device_allocations, 0u);
  EXPECT_EQ(sim::BytesInUse(0), 2 * kStep);
  size_t free_bytes = 0, total_bytes = 0;
  ASSERT_OK(MemGetInfo(&free_bytes, &total_bytes));
  EXPECT_EQ(total_bytes - free_bytes, 2 * kStep);
}

TEST_F(MemoryPoolTest, TheSameStreamReusesAtOnceAndNobodyElse) {
  float* data = FromPool(kStep, stream(0));
  ASSERT_OK(LaunchFill(stream(0), data, 1, 64));
  ASSERT_OK(FreeAsync(data, stream(0)));
  EXPECT_EQ(Stats().used_bytes, 0u);
  FromPool(kStep / 2, stream(0));
  EXPECT_EQ(Stats().reserved_bytes, kStep);
  FromPool(kStep / 2, stream(1));  // half is free, but stream 0 may still use it
  EXPECT_EQ(Stats().reserved_bytes, 2 * kStep);
  EXPECT_EQ(sim::SnapshotOf(stream(1)).event_waits, 0u);
}

TEST_F(MemoryPoolTest, AnEventOrdersReuseByAnotherStream) {
  float* data = FromPool(kStep, stream(0));
  ASSERT_OK(FreeAsync(data, stream(0)));
  UniqueEvent event;
  ASSERT_OK(EventCreate(event.Receive(), EventKind::kOrderOnly));
  ASSERT_OK(EventRecord(event.get(), stream(0)));
  ASSERT_OK(StreamWaitEvent(stream(1), event.get()));
  FromPool(kStep, stream(1));
  EXPECT_EQ(Stats().reserved_bytes, kStep);
  FromPool(kStep, stream(2));
  EXPECT_EQ(Stats().reserved_bytes, 2 * kStep);
}

TEST_F(MemoryPoolTest, AFreeThatHasRunServesEveryStream) {
  ASSERT_OK(MemoryPoolSetReleaseThreshold(pool_.get(), kStep));
  ASSERT_OK(FreeAsync(FromPool(kStep, stream(0)), stream(0)));
  ASSERT_OK(StreamSynchronize(stream(0)));
  FromPool(kStep, stream(1));
  EXPECT_EQ(sim::Snapshot().pool_growths, 1u);
}

TEST_F(MemoryPoolTest, FreedMemoryIsPoisonedWhenTheFreeRuns) {
  float* data = FromPool(256, stream(0));
  float* copy = Allocate<float>(64);
  ASSERT_OK(LaunchFill(stream(0), data, 3, 64));
  ASSERT_OK(MemcpyAsync(copy, data, 256, stream(0)));
  ASSERT_OK(FreeAsync(data, stream(0)));
  EXPECT_FAILS(LaunchFill(stream(0), data, 3, 64), kDeviceError, "use after free");
  EXPECT_FAILS(FreeAsync(data, stream(0)), kInvalidArgument, "double free");
  EXPECT_EQ(Download(copy, 64), std::vector<float>(64, 3));
  for (float value : Download(FromPool(256, stream(0)), 64)) EXPECT_TRUE(std::isnan(value));
}

TEST_F(MemoryPoolTest, MemoryFollowsItsStream) {
  float* data = FromPool(256, stream(0));
  EXPECT_FAILS(LaunchFill(stream(1), data, 0, 64), kDeviceError, "a stream-ordered allocation on stream 1");
  ASSERT_OK(LaunchFill(stream(0), data, 0, 64));
  EXPECT_FAILS(FreeAsync(data, stream(1)), kDeviceError, "unordered access");
  EXPECT_EQ(Stats().used_bytes, 512u);  // the refused free changed nothing
  EXPECT_OK(FreeAsync(data, stream(0)));
}

TEST_F(MemoryPoolTest, SynchronisationReleasesWhatIsOverTheThreshold) {
  UniqueEvent event;
  ASSERT_OK(EventCreate(event.Receive(), EventKind::kOrderOnly));
  const std::function<Status()> waits[] = {
      [&] { return StreamSynchronize(stream()); },
      [&] { return EventRecord(event.get(), stream()).ok() ? EventSynchronize(event.get()) : Status::Ok(); },
      [&] { return DeviceSynchronize(); },
  };
  for (const auto& wait : waits) {
    ASSERT_OK(MemoryPoolSetReleaseThreshold(pool_.get(), kStep));
    float* kept = FromPool(64, stream());
    ASSERT_OK(FreeAsync(FromPool(4 * kStep, stream()), stream()));
    EXPECT_EQ(Stats().reserved_bytes, 5 * kStep);  // the free has not run
    ASSERT_OK(wait());
    EXPECT_EQ(Stats().reserved_bytes, kStep);
    ASSERT_OK(MemoryPoolSetReleaseThreshold(pool_.get(), 0));
    ASSERT_OK(wait());
    EXPECT_EQ(Stats().reserved_bytes, kStep);  // in use
    ASSERT_OK(FreeAsync(kept, stream()));
    ASSERT_OK(wait());
    EXPECT_EQ(Stats().reserved_bytes, 0u);
  }
  EXPECT_EQ(sim::Snapshot().pool_releases, 6u);
  EXPECT_EQ(sim::BytesInUse(0), 0u);
}

TEST_F(MemoryPoolTest, TrimKeepsWhatItIsTold) {
  ASSERT_OK(MemoryPoolSetReleaseThreshold(pool_.get(), SIZE_MAX));
  float* data = FromPool(8 * kStep, stream());
  ASSERT_OK(MemoryPoolTrim(pool_.get(), 0));
  EXPECT_EQ(Stats().reserved_bytes, 8 * kStep);
  ASSERT_OK(FreeAsync(data, stream()));
  ASSERT_OK(MemoryPoolTrim(pool_.get(), 0));
  EXPECT_EQ(Stats().reserved_bytes, 8 * kStep);  // the free is queued
  ASSERT_OK(StreamSynchronize(stream()));
  EXPECT_EQ(Stats().reserved_bytes, 8 * kStep);
  ASSERT_OK(MemoryPoolTrim(pool_.get(), 3 * kStep - 1));
  EXPECT_EQ(Stats().reserved_bytes, 3 * kStep);
  ASSERT_OK(MemoryPoolTrim(pool_.get(), 5 * kStep));
  EXPECT_EQ(Stats().reserved_bytes, 3 * kStep);
  ASSERT_OK(MemoryPoolTrim(pool_.get(), 0));
  EXPECT_EQ(Stats().reserved_bytes, 0u);
}

TEST_F(MemoryPoolTest, PoolsAreApart) {
  UniqueMemoryPool other;
  ASSERT_OK(MemoryPoolCreate(other.Receive(), 0));
  ASSERT_OK(FreeAsync(FromPool(kStep, stream()), stream()));
  void* pointer = nullptr;
  ASSERT_OK(MallocFromPoolAsync(&pointer, kStep, other.get(), stream()));
  EXPECT_EQ(sim::BytesInUse(0), 2 * kStep);
  MemoryPoolStats stats;
  ASSERT_OK(MemoryPoolGetStats(other.get(), &stats));
  EXPECT_EQ(stats.used_bytes, kStep);
  EXPECT_EQ(Stats().used_bytes, 0u);
}

TEST_F(MemoryPoolTest, CapacityEndsPoolsToo) {
  sim::Configuration configuration;
  configuration.memory_bytes = 4 * kStep;
  Start(configuration);
  ASSERT_OK(MemoryPoolCreate(pool_.Receive(), 0));
  float* data = FromPool(3 * kStep, stream());
  void* pointer = nullptr;
  EXPECT_FAILS(MallocFromPoolAsync(&pointer, 2 * kStep, pool_.get(), stream()), kOutOfMemory,
               "4194304 bytes requested from a pool, which must grow by 4194304; 2097152 of 8388608 free");
  EXPECT_FAILS(MallocFromPoolAsync(&pointer, SIZE_MAX, pool_.get(), stream()), kOutOfMemory, "requested from a pool");
  EXPECT_FAILS(Malloc(&pointer, 2 * kStep), kOutOfMemory, "2097152 of 8388608 free");
  EXPECT_EQ(Stats().reserved_bytes, 3 * kStep);
  ASSERT_OK(FreeAsync(data, stream()));
  EXPECT_OK(MallocFromPoolAsync(&pointer, 4 * kStep, pool_.get(), stream()));
}

TEST_F(MemoryPoolTest, FaultsAreTold) {
  void* pointer = nullptr;
  FromPool(64, stream());
  sim::OutOfMemoryAt(1);
  FromPool(64, stream());  // takes nothing new
  EXPECT_FAILS(MallocFromPoolAsync(&pointer, kStep, pool_.get(), stream()), kOutOfMemory, "must grow by");
  sim::FailCall(sim::CallKind::kMallocAsync, 1, Status(StatusCode::kDeviceError, "planned"));
  EXPECT_FAILS(MallocFromPoolAsync(&pointer, 64, pool_.get(), stream()), kDeviceError, "planned");
  sim::FailCall(sim::CallKind::kPool, 1, Status(StatusCode::kDeviceError, "planned"), 4);
  MemoryPool other = nullptr;
  MemoryPoolStats stats;
  EXPECT_FAILS(MemoryPoolCreate(&other, 0), kDeviceError, "planned");
  EXPECT_FAILS(MemoryPoolTrim(pool_.get(), 0), kDeviceError, "planned");
  EXPECT_FAILS(MemoryPoolSetReleaseThreshold(pool_.get(), 0), kDeviceError, "planned");
  EXPECT_FAILS(MemoryPoolGetStats(pool_.get(), &stats), kDeviceError, "planned");
  EXPECT_FAILS(MemoryPoolCreate(&other, 7), kInvalidArgument, "no simulated device 7");
}

TEST_F(MemoryPoolTest, ADestroyedPoolEndsWithItsLastAllocation) {
  float* data = FromPool(256, stream());
  pool_.Reset();
  EXPECT_OK(LaunchFill(stream(), data, 2, 64));
  EXPECT_EQ(Download(data, 64), std::vector<float>(64, 2));
  EXPECT_EQ(sim::BytesInUse(0), kStep);
  ASSERT_OK(FreeAsync(data, stream()));
  EXPECT_EQ(sim::BytesInUse(0), kStep);
  ASSERT_OK(StreamSynchronize(stream()));
  EXPECT_EQ(sim::BytesInUse(0), 0u);
  void* pointer = nullptr;
  EXPECT_FAILS(MallocFromPoolAsync(&pointer, 64, nullptr, stream()), kInvalidArgument, "does not exist");
}

TEST_F(MemoryPoolTest, PlainFreeGivesBackToThePool) {
  float* data = FromPool(256, stream());
  ASSERT_OK(LaunchFill(stream(), data, 2, 64));
  ASSERT_OK(Free(data));
  EXPECT_EQ(Stats().used_bytes, 0u);
  ASSERT_OK(MemoryPoolTrim(pool_.get(), 0));
  EXPECT_EQ(sim::BytesInUse(0), 0u);
}

TEST_F(MemoryPoolTest, DevicesAndCapturesAreKeptApart) {
  sim::Configuration configuration;
  configuration.devices = 2;
  Start(configuration);
  UniqueMemoryPool there;
  ASSERT_OK(MemoryPoolCreate(there.Receive(), 1));
  void* pointer = nullptr;
  EXPECT_FAILS(MallocFromPoolAsync(&pointer, 64, there.get(), stream()), kInvalidArgument, "pool of device 1");
  ASSERT_OK(MemoryPoolCreate(pool_.Receive(), 0));
  ASSERT_OK(StreamBeginCapture(stream(), CaptureMode::kRelaxed));
  EXPECT_FAILS(MallocFromPoolAsync(&pointer, 64, pool_.get(), stream()), kFailedPrecondition, "not captured here");
  Graph graph = nullptr;
  EXPECT_EQ(StreamEndCapture(stream(), &graph).code(), StatusCode::kFailedPrecondition);
}

// Whatever mode runs the work, the account of a pool closes.
TEST_F(MemoryPoolTest, AccountsCloseInEveryMode) {
  std::vector<sim::Configuration> configurations{With(sim::Mode::kLate), With(sim::Mode::kEager)};
  const uint64_t seeds = sim::kThreadSanitizer ? 2 : 8;  // there each takes over ten times as long
  for (uint64_t seed = 0; seed < seeds; ++seed) configurations.push_back(With(sim::Mode::kRandom, seed));
  for (const auto& configuration : configurations) {
    Start(configuration);
    ASSERT_OK(MemoryPoolCreate(pool_.Receive(), 0));
    ASSERT_OK(MemoryPoolSetReleaseThreshold(pool_.get(), SIZE_MAX));
    uint64_t state = configuration.seed;
    std::vector<std::pair<float*, int>> live;
    for (int i = 0; i < 300; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const int on = static_cast<int>(state >> 33) % 3;
      live.emplace_back(FromPool(512 + (state >> 40) % kStep, stream(on)), on);
      ASSERT_OK(LaunchFill(stream(on), live.back().first, 1, 64));
      if (live.size() < 10) continue;
      const size_t victim = (state >> 20) % live.size();
      ASSERT_OK(FreeAsync(live[victim].first, stream(live[victim].second)));
      live.erase(live.begin() + static_cast<ptrdiff_t>(victim));
    }
    EXPECT_GE(Stats().reserved_bytes, Stats().used_bytes);
    EXPECT_EQ(sim::BytesInUse(0), Stats().reserved_bytes);
    for (const auto& [pointer, on] : live) ASSERT_OK(FreeAsync(pointer, stream(on)));
    EXPECT_EQ(Stats().used_bytes, 0u);
    ASSERT_OK(DeviceSynchronize());
    ASSERT_OK(MemoryPoolTrim(pool_.get(), 0));
    EXPECT_EQ(Stats().reserved_bytes, 0u);
    EXPECT_EQ(sim::BytesInUse(0), 0u);
  }
}

}  // namespace
}  // namespace cudaep::device::testing
