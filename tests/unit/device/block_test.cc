// Blocks that are declared inside allocations.
#include <cmath>

#include "device/blocks.h"
#include "device/growable_memory.h"
#include "device/sim/sanitizers.h"
#include "device_fixture.h"

namespace cudaep::device::testing {
namespace {

class BlockTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    arena_ = Allocate<float>(4096);
  }
  float* Declare(size_t at, size_t count, int on = 0) {
    DeclareBlock(arena_ + at, count * sizeof(float), stream(on));
    return arena_ + at;
  }
  float* arena_ = nullptr;
};

TEST_F(BlockTest, UseAfterItsEnd) {
  float* block = Declare(64, 64);
  ASSERT_OK(LaunchFill(stream(), block, 1, 64));
  EXPECT_EQ(Download(block, 64), std::vector<float>(64, 1));
  ASSERT_OK(LaunchFill(stream(), block + 32, 2, 32));  // a view into it
  ForgetBlock(block);
  EXPECT_FAILS(LaunchFill(stream(), block, 1, 64), kDeviceError, "use after the end of block");
  EXPECT_FAILS(LaunchFill(stream(), block + 32, 1, 32), kDeviceError, "ended by call");
  EXPECT_FAILS(MemsetAsync(block, 0, 4, stream()), kDeviceError, "use after the end of block");
  EXPECT_FAILS(LaunchDouble(stream(), {block, Declare(512, 8), 8}), kDeviceError, "use after the end of block");
  float host = 0;
  EXPECT_FAILS(MemcpyAsync(&host, block, 4, stream()), kDeviceError, "use after the end of block");
  EXPECT_OK(StreamSynchronize(stream()));
}

TEST_F(BlockTest, MemoryOutsideOfBlocks) {
  float* block = Declare(64, 64);
  EXPECT_FAILS(LaunchFill(stream(), arena_ + 256, 1, 8), kDeviceError, "lies in no block");
  EXPECT_FAILS(MemsetAsync(block, 0, 65 * sizeof(float), stream()), kDeviceError, "4 bytes too many for block");
  EXPECT_OK(LaunchReadOnly(stream(), block + 64, 0));  // its end is a fine pointer to nothing
  EXPECT_OK(MemsetAsync(block, 0, 64 * sizeof(float), stream()));
}

// The work that was queued before the end still finds its data; what comes after finds none.
TEST_F(BlockTest, EndsInTheOrderOfItsStream) {
  float* copy = Declare(1024, 64);
  float* block = Declare(64, 64);
  ASSERT_OK(LaunchFill(stream(), block, 3, 64));
  ASSERT_OK(MemcpyAsync(copy, block, 64 * sizeof(float), stream()));
  ForgetBlock(block);
  float* next = Declare(64, 64);
  float* stale = Declare(2048, 64);
  ASSERT_OK(MemcpyAsync(stale, next, 64 * sizeof(float), stream()));
  EXPECT_EQ(Download(copy, 64), std::vector<float>(64, 3));
  for (float value : Download(stale, 64)) EXPECT_TRUE(std::isnan(value));
}

// Memory that was handed out and given back twice before any work ran: the end of the first use must not keep out the
// work of the second, which the address sanitizer would stop.
TEST_F(BlockTest, EndsTwiceBeforeItsWorkRuns) {
  float* copy = Declare(1024, 64);
  for (float value : {1.0f, 2.0f}) {
    float* block = Declare(64, 64);
    ASSERT_OK(LaunchFill(stream(), block, value, 64));
    ASSERT_OK(MemcpyAsync(copy, block, 64 * sizeof(float), stream()));
    ForgetBlock(block);
  }
  EXPECT_EQ(Download(copy, 64), std::vector<float>(64, 2));
}

TEST_F(BlockTest, TwoStreamsMeetAtAnyOffset) {
  float* block = Declare(64, 128);
  ASSERT_OK(LaunchFill(stream(0), block, 1, 128));
  EXPECT_FAILS(LaunchReadOnly(stream(1), block + 100, 8), kDeviceError, "on stream 1 may still write it");
  EXPECT_FAILS(MemsetAsync(block + 64, 0, 4, stream(1)), kDeviceError, "unordered access");
  EXPECT_OK(LaunchFill(stream(1), Declare(512, 64, 1), 1, 64));  // a neighbour
  // The block ends and another one begins in its middle, for a stream that was not ordered after it.
  ForgetBlock(block);
  float* next = Declare(128, 64, 1);
  EXPECT_FAILS(LaunchFill(stream(1), next, 1, 64), kDeviceError, "unordered access");
  ASSERT_OK(StreamSynchronize(stream(0)));
  EXPECT_OK(LaunchFill(stream(1), next, 1, 64));
}

TEST_F(BlockTest, BlocksInsideBlocks) {
  float* scratch = Declare(0, 1024);
  float* part = Declare(0, 256);
  float* other = Declare(256, 256);
  EXPECT_OK(MemsetAsync(part, 0, 256 * sizeof(float), stream()));
  EXPECT_FAILS(MemsetAsync(part, 0, 257 * sizeof(float), stream()), kDeviceError, "too many for block");
  ForgetBlock(part);
  EXPECT_OK(MemsetAsync(scratch, 0, 1024 * sizeof(float), stream()));
  ForgetBlock(other);
  ForgetBlock(scratch);
  EXPECT_FAILS(MemsetAsync(scratch, 0, 4, stream()), kDeviceError, "use after the end of block");
}

TEST_F(BlockTest, AGraphMayUseWhatEndedAfterItsCapture) {
  float* block = Declare(64, 64);
  UniqueGraph graph;
  UniqueGraphExec exec;
  ASSERT_OK(StreamBeginCapture(stream(), CaptureMode::kThreadLocal));
  ASSERT_OK(LaunchFill(stream(), block, 1, 64));
  ASSERT_OK(StreamEndCapture(stream(), graph.Receive()));
  ASSERT_OK(GraphInstantiate(exec.Receive(), graph.get()));
  ForgetBlock(block);
  EXPECT_OK(GraphLaunch(exec.get(), stream()));
  EXPECT_OK(StreamSynchronize(stream()));
}

// Its end fills all of it, steps that are not mapped at the time too.
TEST_F(BlockTest, GrowableMemoryEndsWithAStepUnmapped) {
  GrowableMemory memory = nullptr;
  ASSERT_OK(GrowableCreate(&memory, 0, 3 * kGrowableStepBytes));
  ASSERT_OK(GrowableMap(memory, 0, 3 * kGrowableStepBytes));
  ASSERT_OK(GrowableUnmap(memory, 0, kGrowableStepBytes));
  EXPECT_OK(GrowableDestroy(memory));
}

TEST(BlockDeathTest, AddressSanitizerSeesOverrunsOfBlocks) {
  if (!sim::kAddressSanitizer) GTEST_SKIP() << "needs the asan preset";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        UniqueStream stream;
        StreamCreate(stream.Receive()).IgnoreError();
        void* memory = nullptr;
        Malloc(&memory, 4096).IgnoreError();
        DeclareBlock(memory, 64, stream.get());
        LaunchReadOnly(stream.get(), static_cast<float*>(memory), 17).IgnoreError();
        StreamSynchronize(stream.get()).IgnoreError();
      },
      "use-after-poison.*");
}

TEST(BlockDeathTest, AddressSanitizerSeesOverrunsIntoWhatHasEnded) {
  if (!sim::kAddressSanitizer) GTEST_SKIP() << "needs the asan preset";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        UniqueStream stream;
        StreamCreate(stream.Receive()).IgnoreError();
        void* memory = nullptr;
        Malloc(&memory, 4096).IgnoreError();
        auto* block = static_cast<float*>(memory);
        DeclareBlock(block, 64, stream.get());
        for (int i = 0; i < 2; ++i) {  // both ends have been queued
          DeclareBlock(block + 16, 64, stream.get());
          MemsetAsync(block + 16, 0, 64, stream.get()).IgnoreError();
          ForgetBlock(block + 16);
        }
        StreamSynchronize(stream.get()).IgnoreError();
        LaunchReadOnly(stream.get(), block, 17).IgnoreError();
        StreamSynchronize(stream.get()).IgnoreError();
      },
      "use-after-poison.*");
}

TEST(BlockDeathTest, AddressSanitizerSeesOverrunsIntoAStepThatWasMappedAgain) {
  if (!sim::kAddressSanitizer) GTEST_SKIP() << "needs the asan preset";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        UniqueStream stream;
        StreamCreate(stream.Receive()).IgnoreError();
        GrowableMemory memory = nullptr;
        GrowableCreate(&memory, 0, 3 * kGrowableStepBytes).IgnoreError();
        GrowableMap(memory, 0, 3 * kGrowableStepBytes).IgnoreError();
        auto* block = static_cast<float*>(GrowableBase(memory)) + kGrowableStepBytes / sizeof(float) - 16;
        DeclareBlock(block, 64, stream.get());
        GrowableUnmap(memory, kGrowableStepBytes, kGrowableStepBytes).IgnoreError();
        GrowableMap(memory, kGrowableStepBytes, kGrowableStepBytes).IgnoreError();
        LaunchReadOnly(stream.get(), block, 17).IgnoreError();
        StreamSynchronize(stream.get()).IgnoreError();
      },
      "use-after-poison.*");
}

}  // namespace
}  // namespace cudaep::device::testing
