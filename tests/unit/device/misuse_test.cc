// One test per class of mistake that the simulated device finds, and its counterpart that must pass.
#include <csignal>
#include <cstdlib>

#include "device/sim/memory_key.h"
#include "device/sim/sanitizers.h"
#include "device_fixture.h"

namespace cudaep::device::testing {
namespace {

using MisuseTest = DeviceTest;

TEST_F(MisuseTest, MissingEventBetweenStreams) {
  float* in = Upload(std::vector<float>(8, 1));
  float* out = Allocate<float>(8);
  ASSERT_OK(LaunchAdd<float>(stream(0), in, in, out, 8));
  EXPECT_FAILS(LaunchReadOnly(stream(1), out, 8), kDeviceError, "on stream 1 may still write it");
  EXPECT_FAILS(LaunchFill(stream(1), out, 0, 8), kDeviceError, "Fill(float*, float, int) on stream 2 writes");
  EXPECT_FAILS(LaunchFill(stream(1), in, 0, 8), kDeviceError, "may still read it");
  EXPECT_FAILS(MemsetAsync(out, 0, 8, stream(2)), kDeviceError, "unordered access");
  float host[8];
  EXPECT_FAILS(MemcpyAsync(host, out, 32, stream(1)), kDeviceError, "a copy on stream 2 reads");
  EXPECT_OK(StreamSynchronize(stream(0)));  // the mistakes were not queued
}

TEST_F(MisuseTest, OrderedOrReadOnlySharingIsFine) {
  float* weights = Upload(std::vector<float>(8, 1));
  float* arena = Allocate<float>(1024);
  for (int i = 0; i < 3; ++i) ASSERT_OK(LaunchAdd<float>(stream(i), weights, weights, arena + 64 * i, 8));
  // A host synchronisation orders everything that follows, for all streams.
  ASSERT_OK(StreamSynchronize(stream(0)));
  EXPECT_OK(LaunchReadOnly(stream(1), arena, 8));
  // So does an event, transitively.
  UniqueEvent event;
  ASSERT_OK(EventCreate(event.Receive(), EventKind::kOrderOnly));
  ASSERT_OK(EventRecord(event.get(), stream(1)));
  ASSERT_OK(StreamWaitEvent(stream(2), event.get()));
  ASSERT_OK(EventRecord(event.get(), stream(2)));
  ASSERT_OK(StreamWaitEvent(stream(0), event.get()));
  EXPECT_OK(LaunchFill(stream(0), arena + 64, 0, 8));
  // And a callback that tells the host.
  ASSERT_OK(LaunchFill(stream(1), arena + 512, 0, 8));
  int called = 0;
  ASSERT_OK(LaunchHostFunc(
      stream(1), [](void* flag) { *static_cast<int*>(flag) = 1; }, &called));
  while (StreamQuery(stream(1)).code() == StatusCode::kNotReady && called == 0) {
  }
  EXPECT_OK(LaunchFill(stream(2), arena + 512, 0, 8));
  EXPECT_OK(DeviceSynchronize());
}

TEST_F(MisuseTest, UseAfterFree) {
  float* out = Allocate<float>(8);
  ASSERT_OK(LaunchFill(stream(), out, 1, 8));
  ASSERT_OK(Free(out));
  EXPECT_FAILS(LaunchFill(stream(), out, 1, 8), kDeviceError, "use after free of allocation");
  EXPECT_FAILS(LaunchFill(stream(), out, 1, 8), kDeviceError, "last written by");
  EXPECT_FAILS(MemsetAsync(out, 0, 4, stream()), kDeviceError, "freed by call");
  EXPECT_FAILS(LaunchDouble(stream(), {out, Allocate<float>(8), 8}), kDeviceError, "use after free");
  EXPECT_FAILS(Free(out), kInvalidArgument, "double free");
}

TEST_F(MisuseTest, FreeWhileAnotherStreamUsesIt) {
  void* pointer = nullptr;
  ASSERT_OK(MallocAsync(&pointer, 256, stream(0)));
  ASSERT_OK(StreamSynchronize(stream(0)));
  ASSERT_OK(LaunchReadOnly(stream(1), static_cast<float*>(pointer), 8));
  EXPECT_FAILS(FreeAsync(pointer, stream(0)), kDeviceError, "on stream 2 may still read it");
  ASSERT_OK(StreamSynchronize(stream(1)));
  EXPECT_OK(FreeAsync(pointer, stream(0)));
}

TEST_F(MisuseTest, WrongDevice) {
  sim::Configuration configuration;
  configuration.devices = 2;
  Start(configuration);
  float* there = nullptr;
  {
    DeviceGuard guard(1);
    there = Allocate<float>(8);
  }
  EXPECT_FAILS(LaunchFill(stream(), there, 1, 8), kDeviceError,
               "wrong device: runs on device 0 with memory of device 1, allocation");
}

TEST_F(MisuseTest, HostPointer) {
  std::vector<float> host(8);
  EXPECT_FAILS(LaunchFill(stream(), host.data(), 1, 8), kDeviceError, "neither device memory nor pinned memory");
  EXPECT_FAILS(MemsetAsync(host.data(), 0, 8, stream()), kDeviceError, "neither device memory");
  EXPECT_OK(LaunchFill(stream(), AllocatePinned<float>(8), 1, 8));
}

TEST_F(MisuseTest, PointerPastItsAllocation) {
  float* out = Allocate<float>(8);
  EXPECT_OK(LaunchReadOnly(stream(), out + 8, 0));  // the end itself is a fine pointer to nothing
  EXPECT_FAILS(LaunchReadOnly(stream(), out + 16, 0), kDeviceError, "lies outside of allocation");
  EXPECT_OK(StreamSynchronize(stream()));
}

TEST_F(MisuseTest, OutOfBoundsWrite) {
  if (sim::kAddressSanitizer) GTEST_SKIP() << "AddressSanitizer reports the access itself";
  float* out = Allocate<float>(9);
  ASSERT_OK(LaunchPastEnd(stream(), out, 9));
  EXPECT_FAILS(StreamSynchronize(stream()), kDeviceLost, "out-of-bounds write 0 bytes past the end of allocation");
  EXPECT_FAILS(LaunchFill(stream(), out, 1, 1), kDeviceLost, "kernel cudaep::device::testing::");
  Start({});
  out = Allocate<float>(9);
  ASSERT_OK(LaunchPastEnd(stream(), out, -2));
  EXPECT_FAILS(DeviceSynchronize(), kDeviceLost, "8 bytes before allocation");
}

TEST_F(MisuseTest, SynchronisationDuringCapture) {
  Graph graph = nullptr;
  ASSERT_OK(StreamBeginCapture(stream(), CaptureMode::kThreadLocal));
  EXPECT_FAILS(StreamSynchronize(stream()), kFailedPrecondition, "synchronisation of a stream that is capturing");
  EXPECT_FAILS(StreamEndCapture(stream(), &graph), kFailedPrecondition, "the stream capture is invalid");
}

TEST_F(MisuseTest, DeadlockedBarrier) {
  float* out = Allocate<float>(32);
  ASSERT_OK(LaunchStuck(stream(), out));
  const Status status = StreamSynchronize(stream());
  EXPECT_EQ(status.code(), StatusCode::kDeviceLost);
  const std::string text = status.ToString();
  for (const char* part : {"Stuck(float*)", "deadlock in block (0,0,0)", "thread 0 waits in a shuffle",
                           "thread 16 waits in __syncthreads"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  // The next machine works, on new fibers.
  Start({});
  float* sum = Allocate<float>(1);
  ASSERT_OK(LaunchWork(stream(), Upload(std::vector<float>(64, 1)), sum, 3));
  EXPECT_EQ(Download(sum, 1)[0], 192);
}

TEST_F(MisuseTest, LaneOutsideItsMask) {
  ASSERT_OK(LaunchWrongMask(stream(), Allocate<float>(2)));
  EXPECT_FAILS(StreamSynchronize(stream()), kDeviceLost,
               "thread (1,0,0): a shuffle: the calling lane is not in its mask");
}

TEST_F(MisuseTest, HandlesThatDoNotExist) {
  UniqueStream stream;
  ASSERT_OK(StreamCreate(stream.Receive()));
  const Stream gone = stream.get();
  stream.Reset();
  EXPECT_FAILS(StreamSynchronize(gone), kInvalidArgument, "does not exist");
  EXPECT_FAILS(EventQuery(nullptr), kInvalidArgument, "does not exist");
}

// With guard pages a read past the end faults as well; the fault must stay in a child process.
TEST(GuardPageDeathTest, ReadPastTheEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        sim::Configuration configuration;
        configuration.guard_pages = true;
        sim::Configure(configuration).IgnoreError();
        UniqueStream stream;
        StreamCreate(stream.Receive()).IgnoreError();
        void* memory = nullptr;
        Malloc(&memory, 64).IgnoreError();
        LaunchReadOnly(stream.get(), static_cast<float*>(memory), 17).IgnoreError();
        StreamSynchronize(stream.get()).IgnoreError();
      },
      "");
}

#if defined(__SANITIZE_THREAD__)
const ::testing::ExitedWithCode kSegmentationFault(66);  // the sanitizer's own handler tells of the signal and exits
#elif defined(__SANITIZE_ADDRESS__)
const ::testing::ExitedWithCode kSegmentationFault(1);
#else
const ::testing::KilledBySignal kSegmentationFault(SIGSEGV);
#endif

TEST(HostAccessDeathTest, HostCodeReadsDeviceMemory) {
  if (!sim::MemoryIsKeyed()) GTEST_SKIP() << "this processor has no protection keys";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  void* memory = nullptr;
  ASSERT_OK(Malloc(&memory, 64));
  EXPECT_EXIT(*static_cast<volatile char*>(memory) = 0, kSegmentationFault, "");
  EXPECT_OK(Free(memory));
}

TEST(HostAccessDeathTest, CallbackReadsDeviceMemory) {
  if (!sim::MemoryIsKeyed()) GTEST_SKIP() << "this processor has no protection keys";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        UniqueStream stream;
        StreamCreate(stream.Receive()).IgnoreError();
        void* memory = nullptr;
        Malloc(&memory, 64).IgnoreError();
        LaunchHostFunc(
            stream.get(), [](void* bytes) { *static_cast<volatile char*>(bytes) = 0; }, memory)
            .IgnoreError();
        StreamSynchronize(stream.get()).IgnoreError();
      },
      kSegmentationFault, "");
}

TEST(AddressSanitizerDeathTest, OutOfBoundsAccess) {
  if (!sim::kAddressSanitizer) GTEST_SKIP() << "needs the asan preset";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        UniqueStream stream;
        StreamCreate(stream.Receive()).IgnoreError();
        void* memory = nullptr;
        Malloc(&memory, 64).IgnoreError();
        LaunchReadOnly(stream.get(), static_cast<float*>(memory), 17).IgnoreError();
        StreamSynchronize(stream.get()).IgnoreError();
      },
      "use-after-poison.*");
}

TEST_F(MisuseTest, GuardPagesLeaveCorrectProgramsAlone) {
  sim::Configuration configuration;
  configuration.guard_pages = true;
  Start(configuration);
  for (int round = 0; round < 50; ++round) {
    UniqueDeviceMemory memory;
    ASSERT_OK(Malloc(memory.Receive(), 20));
    auto* data = static_cast<float*>(memory.get());
    ASSERT_OK(LaunchFill(stream(), data, 1, 5));
    EXPECT_EQ(Download(data, 5), std::vector<float>(5, 1));
  }
}

}  // namespace
}  // namespace cudaep::device::testing
