// When work runs: modes, host memory, events, callbacks.
#include <atomic>
#include <thread>

#include "device_fixture.h"

namespace cudaep::device::testing {
namespace {

using AsyncTest = DeviceTest;

TEST_F(AsyncTest, LateModeRunsNothingBeforeAWait) {
  float* out = AllocatePinned<float>(4);
  out[0] = -1;
  ASSERT_OK(LaunchFill(stream(), out, 5, 4));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(out[0], -1);
  EXPECT_EQ(StreamQuery(stream()).code(), StatusCode::kNotReady);
  ASSERT_OK(StreamSynchronize(stream()));
  EXPECT_EQ(out[0], 5);
}

TEST_F(AsyncTest, LateModeRunsOnlyWhatTheWaitNeeds) {
  float* a = AllocatePinned<float>(1);
  float* b = AllocatePinned<float>(1);
  a[0] = b[0] = 0;
  ASSERT_OK(LaunchFill(stream(0), a, 1, 1));
  ASSERT_OK(LaunchFill(stream(1), b, 2, 1));
  ASSERT_OK(StreamSynchronize(stream(1)));
  EXPECT_EQ(b[0], 2);
  EXPECT_EQ(a[0], 0);
  ASSERT_OK(DeviceSynchronize());
  EXPECT_EQ(a[0], 1);
}

TEST_F(AsyncTest, QueriesMakeProgress) {
  float* out = AllocatePinned<float>(1);
  UniqueEvent event;
  ASSERT_OK(EventCreate(event.Receive(), EventKind::kOrderOnly));
  EXPECT_OK(EventQuery(event.get()));  // never recorded
  for (int i = 0; i < 10; ++i) ASSERT_OK(LaunchFill(stream(), out, static_cast<float>(i), 1));
  ASSERT_OK(EventRecord(event.get(), stream()));
  int rounds = 0;
  while (EventQuery(event.get()).code() == StatusCode::kNotReady) ASSERT_LT(++rounds, 100);
  EXPECT_GE(rounds, 10);
  EXPECT_EQ(out[0], 9);
}

TEST_F(AsyncTest, LongQueuesDrain) {
  float* out = AllocatePinned<float>(1);
  for (int i = 0; i < 5000; ++i) ASSERT_OK(LaunchFill(stream(), out, static_cast<float>(i), 1));
  EXPECT_GT(out[0], 3000);
  ASSERT_OK(StreamSynchronize(stream()));
  EXPECT_EQ(out[0], 4999);
}

TEST_F(AsyncTest, EagerModeRunsWithoutAWait) {
  Start(With(sim::Mode::kEager));
  std::atomic<int> seen{0};
  ASSERT_OK(LaunchHostFunc(
      stream(), [](void* state) { *static_cast<std::atomic<int>*>(state) = 1; }, &seen));
  for (int i = 0; i < 2000 && seen == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(seen, 1);
}

// A chain over three streams gives the same numbers in every mode.
TEST_F(AsyncTest, EventsOrderStreamsInEveryMode) {
  std::vector<sim::Configuration> configurations{With(sim::Mode::kLate), With(sim::Mode::kEager)};
  for (uint64_t seed = 0; seed < 20; ++seed) configurations.push_back(With(sim::Mode::kRandom, seed));
  for (const auto& configuration : configurations) {
    Start(configuration);
    float* a = Allocate<float>(64);
    float* b = Allocate<float>(64);
    float* c = Allocate<float>(64);
    UniqueEvent first, second;
    ASSERT_OK(EventCreate(first.Receive(), EventKind::kOrderOnly));
    ASSERT_OK(EventCreate(second.Receive(), EventKind::kOrderOnly));
    ASSERT_OK(LaunchFill(stream(0), a, 3, 64));
    ASSERT_OK(EventRecord(first.get(), stream(0)));
    ASSERT_OK(StreamWaitEvent(stream(1), first.get()));
    ASSERT_OK(LaunchAdd<float>(stream(1), a, a, b, 64));
    ASSERT_OK(EventRecord(second.get(), stream(1)));
    ASSERT_OK(StreamWaitEvent(stream(2), second.get()));
    ASSERT_OK(LaunchAdd<float>(stream(2), a, b, c, 64));
    EXPECT_EQ(Download(c, 64, stream(2)), std::vector<float>(64, 9)) << "seed " << configuration.seed;
  }
}

TEST_F(AsyncTest, PageableSourcesAreReadAtOnceAndPinnedOnesLate) {
  float* device = Allocate<float>(1);
  float pageable = 1;
  ASSERT_OK(MemcpyAsync(device, &pageable, sizeof(float), stream()));
  pageable = 2;
  EXPECT_EQ(Download(device, 1)[0], 1);
  float* pinned = AllocatePinned<float>(1);
  *pinned = 1;
  ASSERT_OK(MemcpyAsync(device, pinned, sizeof(float), stream()));
  *pinned = 2;  // too early: the copy has not run
  EXPECT_EQ(Download(device, 1)[0], 2);
}

TEST_F(AsyncTest, CopiesToPageableMemoryBlockAndCountAsSynchronisation) {
  float* device = Upload(std::vector<float>{7});
  float* pinned = AllocatePinned<float>(1);
  *pinned = 0;
  const auto before = sim::Snapshot();
  ASSERT_OK(MemcpyAsync(pinned, device, sizeof(float), stream()));
  EXPECT_EQ(*pinned, 0);
  EXPECT_EQ((sim::Snapshot() - before).synchronizations(), 0u);
  float pageable = 0;
  ASSERT_OK(MemcpyAsync(&pageable, device, sizeof(float), stream()));
  EXPECT_EQ(pageable, 7);
  EXPECT_EQ(*pinned, 7);
  EXPECT_EQ((sim::Snapshot() - before).stream_syncs, 1u);
}

TEST_F(AsyncTest, CallbacksRunInOrderAndMayNotCallTheDevice) {
  struct State {
    float* value;
    float seen = 0;
    Status status;
  } state{AllocatePinned<float>(1), 0, Status()};
  ASSERT_OK(LaunchFill(stream(), state.value, 4, 1));
  ASSERT_OK(LaunchHostFunc(
      stream(),
      [](void* pointer) {
        auto* held = static_cast<State*>(pointer);
        held->seen = *held->value;
        held->status = DeviceSynchronize();
      },
      &state));
  ASSERT_OK(StreamSynchronize(stream()));
  EXPECT_EQ(state.seen, 4);
  EXPECT_EQ(state.status.code(), StatusCode::kFailedPrecondition);
}

TEST_F(AsyncTest, WorkOfADestroyedStreamStillRuns) {
  float* out = AllocatePinned<float>(1);
  out[0] = 0;
  {
    UniqueStream temporary;
    ASSERT_OK(StreamCreate(temporary.Receive()));
    ASSERT_OK(LaunchFill(temporary.get(), out, 3, 1));
  }
  EXPECT_EQ(out[0], 0);
  ASSERT_OK(DeviceSynchronize());
  EXPECT_EQ(out[0], 3);
}

TEST_F(AsyncTest, TimingEventsMeasureTheDevice) {
  float* in = Upload(std::vector<float>(64, 1));
  float* out = Allocate<float>(1);
  UniqueEvent begin, end;
  ASSERT_OK(EventCreate(begin.Receive(), EventKind::kTiming));
  ASSERT_OK(EventCreate(end.Receive(), EventKind::kTiming));
  ASSERT_OK(EventRecord(begin.get(), stream()));
  ASSERT_OK(LaunchWork(stream(), in, out, 200));
  ASSERT_OK(EventRecord(end.get(), stream()));
  float milliseconds = 0;
  EXPECT_EQ(EventElapsedMs(&milliseconds, begin.get(), end.get()).code(), StatusCode::kNotReady);
  ASSERT_OK(EventSynchronize(end.get()));
  ASSERT_OK(EventElapsedMs(&milliseconds, begin.get(), end.get()));
  EXPECT_GT(milliseconds, 0);
  EXPECT_EQ(Download(out, 1)[0], 200 * 64);
}

TEST_F(AsyncTest, ManyHostThreadsShareTheDevice) {
  for (auto mode : {sim::Mode::kLate, sim::Mode::kEager, sim::Mode::kRandom}) {
    Start(With(mode));
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&wrong, t] {
        UniqueStream own;
        UniqueDeviceMemory memory;
        std::vector<float> result(256);
        if (!StreamCreate(own.Receive()).ok() || !Malloc(memory.Receive(), 1024).ok()) ++wrong;
        auto* data = static_cast<float*>(memory.get());
        for (int i = 0; i < 50; ++i) {
          const auto value = static_cast<float>(t * 100 + i);
          if (!LaunchFill(own.get(), data, value, 256).ok()) ++wrong;
          if (!LaunchAdd<float>(own.get(), data, data, data, 256).ok()) ++wrong;
          if (!MemcpyAsync(result.data(), data, 1024, own.get()).ok() || result[255] != 2 * value) ++wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
  }
}

TEST_F(AsyncTest, LibraryWorkIsQueuedLikeAKernel) {
  float* data = Upload(std::vector<float>{1, 2});
  float* out = Allocate<float>(2);
  const void* reads[] = {data};
  void* writes[] = {out};
  ASSERT_OK(sim::EnqueueHostWork(
      stream(), "Gemm", [=] { out[0] = data[0] + data[1]; }, reads, writes));
  EXPECT_EQ(Download(out, 1)[0], 3);
  float plain = 0;
  const void* wrong[] = {&plain};
  EXPECT_FAILS(sim::EnqueueHostWork(stream(), "Gemm", [] {}, wrong, {}), kDeviceError, "Gemm: the pointer");
}

}  // namespace
}  // namespace cudaep::device::testing
