// Memory: capacity, devices, kinds of pointers, stream order, patterns.
#include <cmath>

#include "device_fixture.h"

namespace cudaep::device::testing {
namespace {

using MemoryTest = DeviceTest;

TEST_F(MemoryTest, CapacityIsFiniteAndComesBack) {
  sim::Configuration configuration;
  configuration.memory_bytes = 1 << 20;
  Start(configuration);
  size_t free_bytes = 0, total_bytes = 0;
  UniqueDeviceMemory most, more;
  ASSERT_OK(Malloc(most.Receive(), 1000000));
  EXPECT_FAILS(Malloc(more.Receive(), 100000), kOutOfMemory, "100000 bytes requested, 48576 of 1048576 free");
  EXPECT_EQ(more.get(), nullptr);
  ASSERT_OK(MemGetInfo(&free_bytes, &total_bytes));
  EXPECT_EQ(free_bytes, 48576u);
  EXPECT_EQ(total_bytes, 1048576u);
  most.Reset();
  EXPECT_OK(Malloc(more.Receive(), 100000));
  EXPECT_EQ(sim::PeakBytes(0), 1000000u);
  EXPECT_EQ(sim::BytesInUse(0), 100000u);
}

TEST_F(MemoryTest, AddressesAreReusedInTheEnd) {
  sim::Configuration configuration;
  configuration.memory_bytes = 8 << 20;
  configuration.quarantine_bytes = 1 << 20;
  Start(configuration);
  for (int i = 0; i < 20000; ++i) {
    UniqueDeviceMemory memory;
    ASSERT_OK(Malloc(memory.Receive(), static_cast<size_t>(1 + i * 7919 % (2 << 20)) / (i % 16 == 0 ? 1 : 256) + 1));
  }
  EXPECT_EQ(sim::LiveAllocations(0), 0u);
}

TEST_F(MemoryTest, NewMemoryHoldsNaN) {
  for (float value : Download(Allocate<float>(100), 100)) EXPECT_TRUE(std::isnan(value));
  EXPECT_TRUE(std::isnan(Load(Download(Allocate<Half>(1), 1)[0])));
  EXPECT_TRUE(std::isnan(Load(Download(Allocate<BFloat16>(1), 1)[0])));
}

TEST_F(MemoryTest, PointersTellWhatTheyAre) {
  sim::Configuration configuration;
  configuration.devices = 2;
  Start(configuration);
  float local = 0;
  PointerInfo info;
  ASSERT_OK(GetPointerInfo(Allocate<float>(4) + 2, &info));
  EXPECT_EQ(info.kind, PointerKind::kDevice);
  EXPECT_EQ(info.ordinal, 0);
  {
    DeviceGuard guard(1);
    ASSERT_OK(GetPointerInfo(Allocate<float>(4), &info));
    EXPECT_EQ(info.ordinal, 1);
  }
  ASSERT_OK(GetPointerInfo(AllocatePinned<float>(1), &info));
  EXPECT_EQ(info.kind, PointerKind::kPinnedHost);
  ASSERT_OK(GetPointerInfo(&local, &info));
  EXPECT_EQ(info.kind, PointerKind::kUnregisteredHost);
}

TEST_F(MemoryTest, ZeroBytesAreNull) {
  void* pointer = this;
  ASSERT_OK(Malloc(&pointer, 0));
  EXPECT_EQ(pointer, nullptr);
  EXPECT_OK(Free(nullptr));
  EXPECT_OK(MemcpyAsync(nullptr, nullptr, 0, stream()));
}

TEST_F(MemoryTest, StreamOrderedMemoryFollowsItsStream) {
  void* pointer = nullptr;
  ASSERT_OK(MallocAsync(&pointer, 256, stream(0)));
  auto* data = static_cast<float*>(pointer);
  float* copy = Allocate<float>(64);
  ASSERT_OK(LaunchFill(stream(0), data, 3, 64));
  ASSERT_OK(MemcpyAsync(copy, data, 256, stream(0)));
  ASSERT_OK(FreeAsync(data, stream(0)));
  EXPECT_EQ(sim::BytesInUse(0), 512u);  // the free has not run
  EXPECT_FAILS(LaunchFill(stream(0), data, 3, 64), kDeviceError, "use after free");
  EXPECT_EQ(Download(copy, 64), std::vector<float>(64, 3));
  EXPECT_EQ(sim::BytesInUse(0), 256u);
  ASSERT_OK(MallocAsync(&pointer, 256, stream(0)));
  EXPECT_FAILS(LaunchFill(stream(1), static_cast<float*>(pointer), 0, 64), kDeviceError,
               "a stream-ordered allocation on stream 1 may still write it");
}

TEST_F(MemoryTest, CopiesGoBetweenDevices) {
  sim::Configuration configuration;
  configuration.devices = 2;
  Start(configuration);
  float* here = Upload(std::vector<float>{1, 2, 3});
  float* there = nullptr;
  UniqueStream other;
  {
    DeviceGuard guard(1);
    there = Allocate<float>(3);
    ASSERT_OK(StreamCreate(other.Receive()));
    EXPECT_FAILS(LaunchAdd<float>(stream(), here, here, here, 3), kInvalidArgument, "while device 1 is current");
    EXPECT_FAILS(LaunchAdd<float>(other.get(), here, here, there, 3), kDeviceError, "wrong device");
    ASSERT_OK(EnablePeerAccess(0));
    EXPECT_OK(LaunchAdd<float>(other.get(), here, here, there, 3));
    ASSERT_OK(StreamSynchronize(other.get()));
  }
  EXPECT_EQ(Download(there, 3), (std::vector<float>{2, 4, 6}));
  ASSERT_OK(MemcpyPeerAsync(there, 1, here, 0, 12, stream()));
  EXPECT_EQ(Download(there, 3), (std::vector<float>{1, 2, 3}));
  EXPECT_FAILS(MemcpyPeerAsync(there, 0, here, 0, 12, stream()), kInvalidArgument, "peer copy");
  int ordinal = -1;
  ASSERT_OK(StreamGetDevice(other.get(), &ordinal));
  EXPECT_EQ(ordinal, 1);
}

TEST_F(MemoryTest, CopiesKnowTheirBounds) {
  float* data = Allocate<float>(4);
  const std::vector<float> host(8);
  EXPECT_FAILS(MemcpyAsync(data, host.data(), 20, stream()), kDeviceError, "4 bytes too many for allocation");
  EXPECT_FAILS(MemsetAsync(data + 1, 0, 16, stream()), kDeviceError, "4 bytes too many");
  EXPECT_OK(MemsetAsync(data, 0, 16, stream()));
}

}  // namespace
}  // namespace cudaep::device::testing
