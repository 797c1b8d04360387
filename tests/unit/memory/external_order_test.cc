// When the external allocator gives blocks back and to whom: streams and captures.
#include "external_fixture.h"

namespace cudaep::memory {
namespace {

using testing::CallerMemory;
namespace sim = device::sim;

class ExternalOrderTest : public testing::ExternalFixture {};

TEST_F(ExternalOrderTest, AFreedBlockWaitsForItsStreamAndServesItMeanwhile) {
  void* first = On(4096, stream());
  ASSERT_OK(Use(first, 4096, stream()));
  external_->Free(first);
  EXPECT_EQ(CallerMemory::frees(), 0u);
  EXPECT_EQ(external_->Stats().bytes_in_use, 0);
  EXPECT_EQ(external_->Stats().bytes_reserved, 4096);
  EXPECT_EQ(On(4096, stream()), first);
  EXPECT_EQ(CallerMemory::allocs(), 1u);
  ASSERT_OK(Use(first, 4096, stream()));
  external_->Free(first);
  void* other = On(4096, stream(1));
  EXPECT_NE(other, first);
  ASSERT_OK(Use(other, 4096, stream(1)));
  EXPECT_EQ(CallerMemory::frees(), 0u);
  ASSERT_OK(device::StreamSynchronize(stream()));
  external_->Reached(external_->Mark(stream()));
  EXPECT_EQ(CallerMemory::frees(), 1u);
  external_->Free(other);
}

// The caller's allocator hands a freed block out again on its own stream at once: without the order that the allocator
// makes, the simulated device refuses one of the two.
TEST_F(ExternalOrderTest, BlocksAreOrderedWithTheCallersStreamBothWays) {
  const device::Stream caller = stream(2);
  for (int round = 0; round < 10; ++round) {
    void* theirs = CallerMemory::Alloc(4096);
    ASSERT_OK(Use(theirs, 4096, caller));
    CallerMemory::Free(theirs);  // still in use by work of the caller's stream
    void* ours = On(4096, stream());
    EXPECT_EQ(ours, theirs);
    ASSERT_OK(Use(ours, 4096, stream()));
    external_->Free(ours);
    void* again = CallerMemory::Alloc(4096);
    ASSERT_OK(Use(again, 4096, caller));
    EXPECT_NE(again, ours);
    CallerMemory::Free(again);
    ASSERT_OK(device::StreamSynchronize(stream()));
    external_->Reached(external_->Mark(stream()));
    void* later = CallerMemory::Alloc(4096);
    ASSERT_OK(Use(later, 4096, caller));
    CallerMemory::Free(later);
  }
  EXPECT_EQ(external_->Stats().stream_waits, 10);
}

TEST_F(ExternalOrderTest, OnTheCallersStreamNothingIsHeldOrOrdered) {
  const device::Stream caller = stream(2);
  const auto before = sim::Snapshot();
  for (int i = 0; i < 5; ++i) {
    void* pointer = On(4096, caller);
    ASSERT_OK(Use(pointer, 4096, caller));
    external_->Free(pointer);
    EXPECT_EQ(CallerMemory::frees(), static_cast<size_t>(i + 1));
  }
  const auto spent = sim::Snapshot() - before;
  EXPECT_EQ(spent.event_records + spent.event_waits + spent.synchronizations(), 0u);
  EXPECT_EQ(external_->Stats().stream_waits, 0);
}

TEST_F(ExternalOrderTest, TheLegacyStreamIsTheCallersByDefault) {
  CallerMemory::Reset(nullptr);
  external_ = Make();
  void* theirs = CallerMemory::Alloc(4096);
  ASSERT_OK(Use(theirs, 4096, nullptr));
  CallerMemory::Free(theirs);
  void* ours = On(4096, stream());
  EXPECT_EQ(ours, theirs);
  ASSERT_OK(Use(ours, 4096, stream()));
  external_->Free(ours);
  void* direct = On(4096, device::kLegacyStream);
  ASSERT_OK(Use(direct, 4096, nullptr));
  const size_t frees = CallerMemory::frees();
  external_->Free(direct);
  EXPECT_EQ(CallerMemory::frees(), frees + 1);
}

TEST_F(ExternalOrderTest, UntaggedMemoryIsReadyForEveryStreamAtOnce) {
  void* theirs = CallerMemory::Alloc(4096);
  ASSERT_OK(Use(theirs, 4096, stream(2)));
  CallerMemory::Free(theirs);
  void* ours = Untagged(4096);
  EXPECT_EQ(ours, theirs);
  ASSERT_OK(Use(ours, 4096, stream(0)));
  ASSERT_OK(device::StreamSynchronize(stream(0)));
  ASSERT_OK(Use(ours, 4096, stream(1)));
}

TEST_F(ExternalOrderTest, UntaggedMemoryWaitsForEveryKnownStream) {
  external_->AddStream(stream(0));
  external_->AddStream(stream(1));
  auto* bytes = static_cast<char*>(Untagged(8192));
  ASSERT_OK(Use(bytes, 4096, stream(0)));
  ASSERT_OK(Use(bytes + 4096, 4096, stream(1)));
  external_->Free(bytes);
  ASSERT_OK(device::StreamSynchronize(stream(0)));
  external_->Reached(external_->Mark(stream(0)));
  EXPECT_EQ(CallerMemory::frees(), 0u);
  void* other = On(8192, stream(0));
  EXPECT_NE(other, bytes);
  ASSERT_OK(device::StreamSynchronize(stream(1)));
  external_->Free(other);
  EXPECT_GE(CallerMemory::frees(), 1u);
}

TEST_F(ExternalOrderTest, AReleasedStreamHoldsNothingBack) {
  void* live = On(4096, stream());
  void* freed = On(4096, stream());
  ASSERT_OK(Use(freed, 4096, stream()));
  external_->Free(freed);
  ASSERT_OK(device::StreamSynchronize(stream()));
  external_->ReleaseStream(stream());
  EXPECT_EQ(CallerMemory::frees(), 1u);
  external_->Free(live);
  EXPECT_EQ(CallerMemory::frees(), 2u);
}

TEST_F(ExternalOrderTest, ACapturingStreamAsksNobody) {
  void* warm = On(8192, stream());
  const size_t allocs = CallerMemory::allocs();
  ASSERT_OK(device::StreamBeginCapture(stream(), device::CaptureMode::kThreadLocal));
  EXPECT_FAILS(external_->AllocateOnStream(64, stream()).status(), kFailedPrecondition, "during a capture");
  ASSERT_OK(Use(warm, 8192, stream()));
  external_->Free(warm);
  EXPECT_EQ(On(64, stream()), warm);
  EXPECT_EQ(CallerMemory::allocs(), allocs);
  device::Graph graph = nullptr;
  ASSERT_OK(device::StreamEndCapture(stream(), &graph));
  device::UniqueGraph owner(graph);
  external_->Free(warm);
  ASSERT_OK(external_->Shrink());
  EXPECT_EQ(CallerMemory::frees(), 0u);  // the graph has recorded the address
  EXPECT_NE(On(8192, stream(1)), warm);
  EXPECT_EQ(On(8192, stream()), warm);
  external_->Free(warm);
  ASSERT_OK(device::StreamSynchronize(stream()));
  external_->ReleaseStream(stream());
  EXPECT_EQ(CallerMemory::frees(), 1u);
}

TEST_F(ExternalOrderTest, UntaggedBlocksFreedDuringACaptureWaitForItsEnd) {
  external_->AddStream(stream());
  void* pointer = Untagged(4096);
  ASSERT_OK(device::StreamBeginCapture(stream(), device::CaptureMode::kThreadLocal));
  external_->Free(pointer);
  EXPECT_EQ(CallerMemory::frees(), 0u);
  device::Graph graph = nullptr;
  ASSERT_OK(device::StreamEndCapture(stream(), &graph));
  device::UniqueGraph owner(graph);
  ASSERT_OK(external_->Shrink());
  EXPECT_EQ(CallerMemory::frees(), 1u);
}

TEST_F(ExternalOrderTest, ACallerWhoseStreamIsCapturingGivesNothing) {
  device::Graph graph = nullptr;
  ASSERT_OK(device::StreamBeginCapture(stream(2), device::CaptureMode::kThreadLocal));
  EXPECT_FAILS(external_->AllocateOnStream(64, stream()).status(), kFailedPrecondition, "the caller's stream");
  EXPECT_FAILS(external_->Allocate(64).status(), kFailedPrecondition, "the caller's stream");
  EXPECT_EQ(CallerMemory::outstanding(), 0u);
  ASSERT_OK(device::StreamEndCapture(stream(2), &graph));
  device::UniqueGraph owner(graph);
}

}  // namespace
}  // namespace cudaep::memory
