// Memory without a stream, streams that go, and captures, in the pool allocator.
#include <thread>

#include "pool_fixture.h"

namespace cudaep::memory {
namespace {

using testing::kStep;
namespace sim = device::sim;

class PoolOrderTest : public testing::PoolFixture {};

TEST_F(PoolOrderTest, UntaggedMemoryIsReadyForEveryStreamAtOnce) {
  pool_ = Make(Keeping());
  void* pointer = Untagged(*pool_, 4096);
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(device::MemsetAsync(pointer, i, 4096, stream(i)));
    ASSERT_OK(device::StreamSynchronize(stream(i)));
  }
  pool_->Free(pointer);
}

TEST_F(PoolOrderTest, UntaggedMemoryWaitsForEveryKnownStream) {
  pool_ = Make(Keeping());
  for (int i = 0; i < 3; ++i) pool_->AddStream(stream(i));
  auto* bytes = static_cast<char*>(Untagged(*pool_, 3 * 4096));
  for (int i = 0; i < 3; ++i) ASSERT_OK(device::MemsetAsync(bytes + 4096 * i, i, 4096, stream(i)));
  // Each query of the device lets a step of its stream's work run: more than there are queries.
  for (int i = 0; i < 20; ++i) ASSERT_OK(device::MemsetAsync(bytes + 8192, i, 4096, stream(2)));
  pool_->Free(bytes);
  void* next = Untagged(*pool_, 3 * 4096);
  EXPECT_NE(next, bytes);
  // Until the last of the streams has got there the block is nobody's.
  ASSERT_OK(device::StreamSynchronize(stream(0)));
  ASSERT_OK(device::StreamSynchronize(stream(1)));
  void* third = On(*pool_, 3 * 4096, stream(0));
  EXPECT_NE(third, bytes);
  ASSERT_OK(device::StreamSynchronize(stream(2)));
  void* fourth = On(*pool_, 3 * 4096, stream(0));
  EXPECT_EQ(fourth, bytes);
  ASSERT_OK(device::MemsetAsync(fourth, 9, 3 * 4096, stream(0)));
}

TEST_F(PoolOrderTest, ASteadyUntaggedLoopAsksTheDriverForNothing) {
  pool_ = Make(Keeping(0));
  pool_->AddStream(stream());
  for (int i = 0; i < 50; ++i) {
    if (i == 2) sim::ResetCounters();
    void* pointer = Untagged(*pool_, 70000);
    ASSERT_OK(device::MemsetAsync(pointer, i, 70000, stream()));
    pool_->Free(pointer);
    ASSERT_OK(device::StreamSynchronize(stream()));
    pool_->Reached(pool_->Mark(stream()));
  }
  EXPECT_EQ(sim::Snapshot().device_allocations, 0u);
}

TEST_F(PoolOrderTest, MemoryOutlivesItsStream) {
  pool_ = Make(Keeping());
  device::UniqueStream temporary;
  ASSERT_OK(device::StreamCreate(temporary.Receive()));
  void* output = On(*pool_, kStep, temporary.get());
  ASSERT_OK(device::MemsetAsync(output, 1, kStep, temporary.get()));
  ASSERT_OK(device::StreamSynchronize(temporary.get()));
  pool_->ReleaseStream(temporary.get());
  temporary.Reset();
  ASSERT_OK(device::MemsetAsync(output, 2, kStep, stream()));
  ASSERT_OK(device::StreamSynchronize(stream()));
  pool_->Free(output);
  void* next = On(*pool_, kStep, stream());
  ASSERT_OK(device::MemsetAsync(next, 3, kStep, stream()));
  EXPECT_EQ(pool_->Stats().bytes_reserved, static_cast<int64_t>(kStep));
}

TEST_F(PoolOrderTest, AThousandStreamsLeaveNothingBehind) {
  pool_ = Make(Keeping());
  for (int i = 0; i < 1000; ++i) {
    device::UniqueStream temporary;
    ASSERT_OK(device::StreamCreate(temporary.Receive()));
    void* pointer = On(*pool_, 5000, temporary.get());
    ASSERT_OK(device::MemsetAsync(pointer, 1, 5000, temporary.get()));
    if (i % 2 == 0) pool_->Free(pointer);
    ASSERT_OK(device::StreamSynchronize(temporary.get()));
    pool_->ReleaseStream(temporary.get());
    temporary.Reset();
    if (i % 2 != 0) pool_->Free(pointer);
  }
  EXPECT_EQ(pool_->Stats().bytes_reserved, static_cast<int64_t>(kStep));
  EXPECT_EQ(pool_->Stats().driver_allocations, 1);
  ASSERT_OK(pool_->Shrink());
  EXPECT_EQ(sim::BytesInUse(0), 0u);
}

TEST_F(PoolOrderTest, ACapturingStreamGetsOnlyItsOwn) {
  pool_ = Make(Keeping());
  void* warm = On(*pool_, 8192, stream());
  device::Graph graph = nullptr;
  ASSERT_OK(device::StreamBeginCapture(stream(), device::CaptureMode::kThreadLocal));
  const auto before = sim::Snapshot();
  EXPECT_FAILS(pool_->AllocateOnStream(8192, stream()).status(), kFailedPrecondition, "use the arena");
  ASSERT_OK(device::MemsetAsync(warm, 1, 8192, stream()));
  pool_->Free(warm);
  void* captured = On(*pool_, 1000, stream());
  EXPECT_EQ(captured, warm);
  void* elsewhere = On(*pool_, 8192, stream(1));
  EXPECT_NE(elsewhere, warm);
  EXPECT_EQ((sim::Snapshot() - before).queries, 0u);
  ASSERT_OK(device::StreamEndCapture(stream(), &graph));
  device::UniqueGraph owner(graph);
  pool_->Free(captured);
  // The graph has recorded the address: it stays with the stream.
  ASSERT_OK(pool_->Shrink());
  EXPECT_NE(On(*pool_, 8192, stream(1)), warm);
  EXPECT_EQ(On(*pool_, 8192, stream()), warm);
  pool_->Free(warm);
  ASSERT_OK(device::DeviceSynchronize());
  pool_->ReleaseStream(stream());
  ASSERT_OK(pool_->Shrink());
  EXPECT_FAILS(device::MemsetAsync(warm, 1, 8192, stream()), kDeviceError, "use after free");
}

TEST_F(PoolOrderTest, OtherThreadsCapturesAreNotDisturbed) {
  pool_ = Make(Keeping(0));
  device::Graph graph = nullptr;
  void* target = On(*pool_, 4096, stream());
  ASSERT_OK(device::StreamBeginCapture(stream(), device::CaptureMode::kGlobal));
  ASSERT_OK(device::MemsetAsync(target, 1, 4096, stream()));
  std::thread([&] {
    void* a = On(*pool_, kStep, stream(1));
    void* b = Untagged(*pool_, kStep);
    Result<void*> c = pool_->Reserve(kStep);
    EXPECT_OK(c.status());
    pool_->Free(a);
    pool_->Free(b);
    EXPECT_OK(pool_->Shrink());
  }).join();
  ASSERT_OK(device::StreamEndCapture(stream(), &graph));
  device::UniqueGraph owner(graph);
}

}  // namespace
}  // namespace cudaep::memory
