// Planned faults, sticky errors, counters, the single-stream launcher.
#include "device_fixture.h"

namespace cudaep::device::testing {
namespace {

using FaultTest = DeviceTest;

TEST_F(FaultTest, TheNthCallOfAKindFailsOnce) {
  float* out = Allocate<float>(8);
  sim::FailCall(sim::CallKind::kLaunch, 2, Status(StatusCode::kDeviceError, "planned"));
  EXPECT_OK(LaunchFill(stream(), out, 1, 8));
  EXPECT_FAILS(LaunchFill(stream(), out, 2, 8), kDeviceError, "planned");
  EXPECT_OK(MemsetAsync(out + 4, 0, 16, stream()));
  EXPECT_OK(LaunchFill(stream(), out, 3, 4));
  EXPECT_EQ(Download(out, 8), (std::vector<float>{3, 3, 3, 3, 0, 0, 0, 0}));
}

TEST_F(FaultTest, MemoryRunsOutAtTheNthAllocation) {
  sim::OutOfMemoryAt(2);
  void* pointer = nullptr;
  EXPECT_OK(Malloc(&pointer, 16));
  EXPECT_FAILS(MallocAsync(&pointer, 16, stream()), kOutOfMemory, "16 bytes requested");
  EXPECT_OK(Malloc(&pointer, 16));
}

TEST_F(FaultTest, RandomFaultsFollowTheirSeed) {
  const auto run = [&](uint64_t seed) {
    Start({});
    sim::FailRandomly(sim::CallKind::kEventCreate, 0.3, seed, Status(StatusCode::kDeviceError, "planned"));
    std::string pattern;
    for (int i = 0; i < 64; ++i) {
      UniqueEvent event;
      pattern += EventCreate(event.Receive(), EventKind::kOrderOnly).ok() ? '1' : '0';
    }
    return pattern;
  };
  EXPECT_EQ(run(5), run(5));
  EXPECT_NE(run(5), run(6));
  EXPECT_NE(run(5).find('0'), std::string::npos);
}

TEST_F(FaultTest, AStickyErrorIsReportedByTheNextSyncAndThenByEveryCall) {
  float* out = Allocate<float>(1);
  sim::RaiseStickyError(0, "planned illegal address");
  EXPECT_OK(LaunchFill(stream(), out, 1, 1));
  EXPECT_FAILS(StreamSynchronize(stream()), kDeviceLost, "planned illegal address");
  EXPECT_FAILS(LaunchFill(stream(), out, 1, 1), kDeviceLost, "planned illegal address");
  void* pointer = nullptr;
  EXPECT_FAILS(Malloc(&pointer, 1), kDeviceLost, "simulated device 0 is lost");
  EXPECT_EQ(Free(out).code(), StatusCode::kDeviceLost);
  EXPECT_EQ(sim::LiveAllocations(0), 0u);  // released all the same
}

TEST_F(FaultTest, ALostDeviceLeavesTheOthersAlone) {
  sim::Configuration configuration;
  configuration.devices = 2;
  Start(configuration);
  sim::LoseDevice(1, "fell off the bus");
  EXPECT_OK(LaunchFill(stream(), Allocate<float>(1), 1, 1));
  EXPECT_OK(StreamSynchronize(stream()));
  DeviceGuard guard(1);
  EXPECT_OK(guard.status());
  EXPECT_FAILS(DeviceSynchronize(), kDeviceLost, "fell off the bus");
}

TEST_F(FaultTest, QueuedWorkOfALostDeviceNeverRuns) {
  float* pinned = AllocatePinned<float>(1);
  pinned[0] = 0;
  ASSERT_OK(LaunchFill(stream(), pinned, 1, 1));
  sim::LoseDevice(0, "gone");
  EXPECT_EQ(StreamSynchronize(stream()).code(), StatusCode::kDeviceLost);
  EXPECT_EQ(HostFree(pinned).code(), StatusCode::kOk);
}

TEST_F(FaultTest, CountersSayWhatHappened) {
  sim::ResetCounters();
  float* in = Upload(std::vector<float>(8, 1));
  float* out = Allocate<float>(8);
  ASSERT_OK(MemsetAsync(out, 0, 32, stream(1)));
  ASSERT_OK(StreamSynchronize(stream(1)));
  ASSERT_OK(LaunchAdd<float>(stream(), in, in, out, 8));
  ASSERT_OK(MemcpyAsync(out, in, 16, stream()));
  Download(out, 8);
  const sim::Counters all = sim::Snapshot();
  EXPECT_EQ(all.launches, 1u);
  EXPECT_EQ(all.memsets, 1u);
  EXPECT_EQ(all.memset_bytes, 32u);
  EXPECT_EQ(all.host_to_device_bytes, 32u);
  EXPECT_EQ(all.device_to_host_bytes, 32u);
  EXPECT_EQ(all.device_to_device_bytes, 16u);
  EXPECT_EQ(all.pageable_copies, 2u);
  EXPECT_EQ(all.device_allocations, 2u);
  EXPECT_EQ(all.stream_syncs, 3u);
  EXPECT_EQ(sim::SnapshotOf(stream(1)).memsets, 1u);
  EXPECT_EQ(sim::SnapshotOf(stream(1)).launches, 0u);
  EXPECT_EQ(sim::SnapshotOf(0).launches, 1u);
  sim::ResetCounters();
  EXPECT_EQ(sim::Snapshot().launches, 0u);
}

TEST_F(FaultTest, OtherStreamsCanBeForbidden) {
  float* out = Allocate<float>(8);
  sim::RestrictToStream(stream(1));
  EXPECT_OK(LaunchFill(stream(1), out, 1, 8));
  EXPECT_FAILS(LaunchFill(stream(0), out, 1, 8), kFailedPrecondition, "only stream 2 may be used here");
  EXPECT_FAILS(MemsetAsync(out, 0, 4, stream(2)), kFailedPrecondition, "only stream");
  EXPECT_FAILS(LaunchFill(nullptr, out, 1, 8), kFailedPrecondition, "was given stream 0");
  sim::RestrictToStream(nullptr);
  ASSERT_OK(StreamSynchronize(stream(1)));
  EXPECT_OK(LaunchFill(stream(0), out, 1, 8));
}

}  // namespace
}  // namespace cudaep::device::testing
