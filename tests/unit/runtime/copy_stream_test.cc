// Copies on a stream of their own keep the order that they would have on the compute stream.
#include "runtime/copy_stream.h"

#include <gtest/gtest.h>

#include "device/sim/sim.h"

namespace cudaep {
namespace {

using device::sim::Mode;

class CopyStreamTest : public testing::TestWithParam<Mode> {
 protected:
  void SetUp() override {
    device::sim::Configuration configuration;
    configuration.mode = GetParam();
    ASSERT_TRUE(device::sim::Configure(configuration).ok());
    ASSERT_TRUE(device::StreamCreate(compute_.Receive()).ok());
    ASSERT_TRUE(device::Malloc(memory_.Receive(), kBytes).ok());
    ASSERT_TRUE(copies_.Create().ok());
  }
  void TearDown() override {
    copies_ = CopyStream();
    compute_.Reset();
    memory_.Reset();
    ASSERT_TRUE(device::sim::Configure({}).ok());
  }

  static constexpr size_t kBytes = 4096;
  device::UniqueStream compute_;
  device::UniqueDeviceMemory memory_;
  CopyStream copies_;
};

TEST_P(CopyStreamTest, WorkBeforeAndAfterACopyIsOrderedWithIt) {
  const auto before = device::sim::Snapshot();
  for (int i = 0; i < 20; ++i) {
    const std::vector<unsigned char> source(kBytes, static_cast<unsigned char>(i));
    // The fill is still queued when the copy to the same memory is.
    ASSERT_TRUE(device::MemsetAsync(memory_.get(), 0xee, kBytes, compute_.get()).ok());
    Result<device::Stream> stream = copies_.Begin(compute_.get());
    ASSERT_TRUE(stream.ok());
    ASSERT_NE(*stream, compute_.get());
    const Status copied = device::MemcpyAsync(memory_.get(), source.data(), kBytes, *stream);
    ASSERT_TRUE(copied.ok()) << copied.ToString();
    ASSERT_TRUE(copies_.End(compute_.get()).ok());
    EXPECT_EQ((device::sim::Snapshot() - before).stream_syncs, static_cast<uint64_t>(i));
    std::vector<unsigned char> found(kBytes);
    ASSERT_TRUE(device::MemcpyAsync(found.data(), memory_.get(), kBytes, compute_.get()).ok());
    EXPECT_EQ(found, source);
  }
  const auto spent = device::sim::Snapshot() - before;
  EXPECT_EQ(spent.device_syncs + spent.event_syncs, 0u);
}

TEST_P(CopyStreamTest, ACopyWithoutTheOrderIsRefused) {
  ASSERT_TRUE(device::MemsetAsync(memory_.get(), 1, kBytes, compute_.get()).ok());
  ASSERT_TRUE(copies_.Begin(compute_.get()).ok());
  ASSERT_TRUE(device::MemsetAsync(memory_.get(), 2, kBytes, compute_.get()).ok());
  unsigned char byte = 0;
  Result<device::Stream> stream = copies_.Begin(compute_.get());
  ASSERT_TRUE(stream.ok());
  ASSERT_TRUE(device::MemcpyAsync(memory_.get(), &byte, 1, *stream).ok());
  EXPECT_FALSE(device::MemsetAsync(memory_.get(), 3, kBytes, compute_.get()).ok());  // End was left out
  ASSERT_TRUE(copies_.End(compute_.get()).ok());
  EXPECT_TRUE(device::MemsetAsync(memory_.get(), 3, kBytes, compute_.get()).ok());
}

TEST_P(CopyStreamTest, ItJoinsACaptureAndLeavesIt) {
  const std::vector<unsigned char> source(kBytes, 9);
  void* pinned = nullptr;
  ASSERT_TRUE(device::HostMalloc(&pinned, kBytes).ok());
  std::copy(source.begin(), source.end(), static_cast<unsigned char*>(pinned));
  ASSERT_TRUE(device::StreamBeginCapture(compute_.get(), device::CaptureMode::kThreadLocal).ok());
  Result<device::Stream> stream = copies_.Begin(compute_.get());
  ASSERT_TRUE(stream.ok());
  ASSERT_TRUE(device::MemcpyAsync(memory_.get(), pinned, kBytes, *stream).ok());
  ASSERT_TRUE(copies_.End(compute_.get()).ok());
  device::UniqueGraph graph;
  device::UniqueGraphExec exec;
  const Status captured = device::StreamEndCapture(compute_.get(), graph.Receive());
  ASSERT_TRUE(captured.ok()) << captured.ToString();
  ASSERT_TRUE(device::GraphInstantiate(exec.Receive(), graph.get()).ok());
  ASSERT_TRUE(device::GraphLaunch(exec.get(), compute_.get()).ok());
  std::vector<unsigned char> found(kBytes);
  ASSERT_TRUE(device::MemcpyAsync(found.data(), memory_.get(), kBytes, compute_.get()).ok());
  EXPECT_EQ(found, source);
  ASSERT_TRUE(device::HostFree(pinned).ok());
}

INSTANTIATE_TEST_SUITE_P(Modes, CopyStreamTest, testing::Values(Mode::kLate, Mode::kRandom, Mode::kEager));

}  // namespace
}  // namespace cudaep
