// What is the arena's own, apart from the allocator contract: its bound, its growth, what a hit costs.
#include "arena_fixture.h"
#include "core/spin_lock.h"
#include "memory/allocation_label.h"

namespace cudaep::memory {
namespace {

using testing::ArenaTest;
using testing::kMiB;
namespace sim = device::sim;

TEST_F(ArenaTest, ASteadyRunAsksNothingOfTheDriver) {
  Make();
  const auto run = [&](int index) {
    std::vector<void*> live;
    for (size_t i = 1; i < 30; ++i) {
      live.push_back(On(i * 10000, stream(index)));
      if (i % 3 == 0) {
        arena_->Free(live.front());
        live.erase(live.begin());
      }
    }
    for (void* pointer : live) arena_->Free(pointer);
    Synchronize(index);
  };
  for (int index = 0; index < 3; ++index) run(index);
  const sim::Counters before = sim::Snapshot();
  for (int index : {0, 1, 2, 2, 0, 1}) run(index);
  const sim::Counters spent = sim::Snapshot() - before;
  EXPECT_EQ(spent.device_allocations + spent.device_frees + spent.event_records + spent.event_waits + spent.queries,
            0u);
  EXPECT_EQ(arena_->Stats().stream_waits, 0);
}

TEST_F(ArenaTest, UntaggedMemoryInALoopAsksNothingOfTheDriver) {
  Make();
  for (int i = 0; i < 3; ++i) arena_->AddStream(stream(i));
  int64_t taken = 0;
  sim::Counters before;
  for (int round = 0; round < 100; ++round) {
    Result<void*> input = arena_->Allocate(3 * kMiB);
    ASSERT_OK(input.status());
    ASSERT_OK(device::MemsetAsync(input.value(), 1, 3 * kMiB, stream(round % 3)));
    arena_->Free(input.value());
    Synchronize(0), Synchronize(1), Synchronize(2);
    if (round == 2) {
      taken = arena_->Stats().driver_allocations;
      before = sim::Snapshot();
    }
  }
  EXPECT_EQ(arena_->Stats().driver_allocations, taken);
  const sim::Counters spent = sim::Snapshot() - before;
  EXPECT_EQ(spent.event_records + spent.event_waits + spent.queries, 0u);
}

// Nobody waits for the streams, so what they used has to be asked for: when memory is short, not at each free.
TEST_F(ArenaTest, UntaggedMemoryIsMarkedWhenItIsMissed) {
  Make({.extend_strategy = ExtendStrategy::kSameAsRequested, .slack_bytes = 16 * kMiB});
  for (int i = 0; i < 3; ++i) arena_->AddStream(stream(i));
  const uint64_t before = sim::Snapshot().event_records;
  for (int round = 0; round < 80; ++round) {
    Result<void*> input = arena_->Allocate(2 * kMiB);
    ASSERT_OK(input.status());
    ASSERT_OK(device::MemsetAsync(input.value(), 1, 2 * kMiB, stream(round % 3)));
    arena_->Free(input.value());
  }
  EXPECT_LE(Reserved(), static_cast<int64_t>(20 * kMiB));
  EXPECT_LE(sim::Snapshot().event_records - before, 3u * 80 / 6);
}

TEST_F(ArenaTest, SmallConcurrentRunsNeverWaitForEachOther) {
  Make();
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 3; ++i) {  // all queued, none done
      void* const chunk = On(kMiB, stream(i));
      ASSERT_OK(device::MemsetAsync(chunk, 1, kMiB, stream(i)));
      arena_->Free(chunk);
    }
    if (round % 10 == 9) Synchronize(0), Synchronize(1), Synchronize(2);
  }
  EXPECT_EQ(arena_->Stats().stream_waits, 0);
}

TEST_F(ArenaTest, BeyondTheSlackStreamsShareByWaiting) {
  Make({.extend_strategy = ExtendStrategy::kSameAsRequested, .slack_bytes = 64 * kMiB});
  for (int i = 0; i < 3; ++i) {
    void* const chunk = On(100 * kMiB, stream(i));
    ASSERT_OK(device::MemsetAsync(chunk, 1, 100, stream(i)));
    arena_->Free(chunk);
  }
  EXPECT_EQ(Reserved(), static_cast<int64_t>(100 * kMiB));
  EXPECT_EQ(arena_->Stats().stream_waits, 2);
  EXPECT_EQ(sim::Snapshot().synchronizations(), 0u);
  ASSERT_OK(device::DeviceSynchronize());
}

TEST_F(ArenaTest, FreeMemoryOfSeveralStreamsMergesForALargeRequest) {
  Make({.extend_strategy = ExtendStrategy::kSameAsRequested});
  std::vector<void*> chunks;
  void* const whole = On(200 * kMiB, stream());
  arena_->Free(whole);
  Synchronize(0);
  for (int i = 0; i < 4; ++i) chunks.push_back(On(50 * kMiB, stream(i % 3)));
  for (void* chunk : chunks) arena_->Free(chunk);
  EXPECT_EQ(On(200 * kMiB, stream(1)), whole);
  EXPECT_EQ(Reserved(), static_cast<int64_t>(200 * kMiB));
}

TEST_F(ArenaTest, AGiantBatchAndAShrinkLeaveTheSmallFootprint) {
  Make();
  const auto batch = [&](size_t scale) {
    std::vector<void*> live;
    for (size_t i = 1; i <= 20; ++i) live.push_back(On(i * scale, stream()));
    for (void* pointer : live) arena_->Free(pointer);
    Synchronize(0);
  };
  for (int i = 0; i < 5; ++i) batch(kMiB);
  ASSERT_OK(arena_->Shrink());
  batch(kMiB);
  const int64_t small = Reserved();
  batch(40 * kMiB);
  EXPECT_GT(Reserved(), 10 * small);
  ASSERT_OK(arena_->Shrink());
  batch(kMiB);
  EXPECT_LE(static_cast<double>(Reserved()), 1.05 * static_cast<double>(small));
}

TEST_F(ArenaTest, AShrinkGivesBackWhatLiesBelowALiveChunk) {
  Make({.extend_strategy = ExtendStrategy::kSameAsRequested});
  void* const low = On(64 * kMiB, stream());
  auto* const kept = static_cast<uint8_t*>(On(4096, stream()));
  ASSERT_OK(device::MemsetAsync(kept, 7, 4096, stream()));
  arena_->Free(On(32 * kMiB, stream()));
  arena_->Free(low);
  ASSERT_OK(arena_->Shrink());
  EXPECT_EQ(Reserved(), static_cast<int64_t>(2 * kMiB));
  EXPECT_EQ(Download(kept, 4096), std::vector<uint8_t>(4096, 7));
  EXPECT_EQ(On(64 * kMiB, stream()), low);  // where the gap is
  arena_->Free(kept);
  arena_->Free(low);
  ASSERT_OK(arena_->Shrink());
  EXPECT_EQ(Reserved(), 0);
}

// Between live chunks lies enough memory for the request, in pieces that are too small for it.
TEST_F(ArenaTest, AtItsLimitScatteredMemoryIsMappedInOnePiece) {
  Make({.max_bytes = 64 * kMiB, .extend_strategy = ExtendStrategy::kSameAsRequested});
  std::vector<uint8_t*> chunks;
  for (int i = 0; i < 16; ++i) {
    chunks.push_back(static_cast<uint8_t*>(On(4 * kMiB, stream(i % 3))));
    ASSERT_OK(device::MemsetAsync(chunks.back(), i, 4 * kMiB, stream(i % 3)));
  }
  for (size_t i = 0; i < 16; i += 2) arena_->Free(chunks[i]);
  auto* const large = static_cast<uint8_t*>(On(24 * kMiB, stream(1)));
  ASSERT_OK(device::MemsetAsync(large, 77, 24 * kMiB, stream(1)));
  EXPECT_LE(Reserved(), static_cast<int64_t>(64 * kMiB));
  ASSERT_OK(device::DeviceSynchronize());
  for (size_t i = 1; i < 16; i += 2) {
    EXPECT_EQ(Download(chunks[i], 4 * kMiB), std::vector<uint8_t>(4 * kMiB, static_cast<uint8_t>(i)));
    arena_->Free(chunks[i]);
  }
  EXPECT_EQ(Download(large, 24 * kMiB), std::vector<uint8_t>(24 * kMiB, 77));
  arena_->Free(large);
  ASSERT_OK(arena_->Shrink());
  EXPECT_EQ(Reserved(), 0);
}

// The pieces of a device that has no memory left for anybody are as good as those below a limit.
TEST_F(ArenaTest, OnAFullDeviceScatteredMemoryIsMappedInOnePiece) {
  sim::Configuration small = With(sim::Mode::kLate);
  small.memory_bytes = 64 * kMiB;
  Start(small);
  Make({.extend_strategy = ExtendStrategy::kSameAsRequested});
  std::vector<void*> chunks;
  for (int i = 0; i < 15; ++i) chunks.push_back(On(4 * kMiB, stream()));
  for (size_t i = 0; i < chunks.size(); i += 2) arena_->Free(chunks[i]);
  for (int round = 0; round < 100; ++round) {  // longer than there are addresses, were they not used again
    for (const size_t mib : {24, 14, 18}) arena_->Free(On(mib * kMiB, stream(round % 3)));
  }
  EXPECT_EQ(arena_->Stats().failures, 0);
}

TEST_F(ArenaTest, TheConfigurationDecidesHowItGrows) {
  Make({.initial_chunk_bytes = 8 * kMiB, .initial_growth_chunk_bytes = 4 * kMiB});
  void* const first = On(1000, stream());
  EXPECT_EQ(Reserved(), static_cast<int64_t>(8 * kMiB));
  void* const second = On(8 * kMiB, stream());
  EXPECT_EQ(Reserved(), static_cast<int64_t>(24 * kMiB));  // doubled
  arena_->Free(first);
  arena_->Free(second);
  ASSERT_OK(arena_->Shrink());
  EXPECT_EQ(Reserved(), 0);
  On(1000, stream());
  EXPECT_EQ(Reserved(), static_cast<int64_t>(4 * kMiB));

  Make({.extend_strategy = ExtendStrategy::kSameAsRequested});
  On(1000, stream());
  EXPECT_EQ(Reserved(), static_cast<int64_t>(2 * kMiB));  // the driver's step
  On(5 * kMiB, stream());
  EXPECT_EQ(Reserved(), static_cast<int64_t>(6 * kMiB));  // what the end of the region lacked

  Make({.max_power_of_two_extend_bytes = 2 * kMiB});
  for (int i = 0; i < 8; ++i) On(kMiB, stream());
  EXPECT_LE(Reserved(), static_cast<int64_t>(10 * kMiB));
}

TEST_F(ArenaTest, ItsLimitIsALimit) {
  Make({.max_bytes = 10 * kMiB});
  void* const first = On(6 * kMiB, stream());
  const Status status = arena_->AllocateOnStream(6 * kMiB, stream(1)).status();
  EXPECT_FAILS(status, kOutOfMemory, "the arena's limit is reached");
  EXPECT_FAILS(status, kOutOfMemory, "of 10485760");
  arena_->Free(first);
  On(9 * kMiB, stream(1));  // after the first region went back
  EXPECT_LE(Reserved(), static_cast<int64_t>(10 * kMiB));
}

TEST_F(ArenaTest, TheErrorNamesTheLargestUsers) {
  Make({.max_bytes = 32 * kMiB});
  {
    const LabelScope label(InternLabel("Conv node 'stem'"));
    On(3 * kMiB, stream());
    On(2 * kMiB, stream());
  }
  On(kMiB, stream());
  const Status status = arena_->AllocateOnStream(64 * kMiB, stream()).status();
  EXPECT_FAILS(status, kOutOfMemory, "[CUDAEP_OUT_OF_MEMORY] 67108864 bytes on CUDA device 0");
  EXPECT_FAILS(status, kOutOfMemory, "Conv node 'stem' 5 MiB in 2 chunks");
  EXPECT_FAILS(status, kOutOfMemory, "pattern block, inputs, outputs) 1 MiB in 1 chunk");
}

TEST_F(ArenaTest, LargeRemaindersAreCutOffSmallOnesStay) {
  Make({.extend_strategy = ExtendStrategy::kSameAsRequested});
  arena_->Free(On(64 * kMiB, stream()));
  void* const most = On(63 * kMiB, stream());  // what is left is under a part in 32
  EXPECT_EQ(arena_->Stats().bytes_in_use, static_cast<int64_t>(63 * kMiB));
  On(kMiB, stream());
  EXPECT_GT(Reserved(), static_cast<int64_t>(64 * kMiB));
  arena_->Free(most);
  Make({.extend_strategy = ExtendStrategy::kSameAsRequested, .max_dead_bytes_per_chunk = 0});
  arena_->Free(On(64 * kMiB, stream()));
  On(63 * kMiB, stream());
  On(kMiB, stream());
  EXPECT_EQ(Reserved(), static_cast<int64_t>(64 * kMiB));
}

TEST_F(ArenaTest, PinnedMemoryNeedsNoDevice) {
  arena_ = std::make_unique<Arena>(MemorySource{MemoryKind::kPinnedHost, 0}, ArenaConfig{});
  const uint64_t before = sim::Snapshot().host_allocations;
  for (int i = 0; i < 10; ++i) {
    Result<void*> pointer = arena_->Allocate(100000);
    ASSERT_OK(pointer.status());
    std::fill_n(static_cast<char*>(pointer.value()), 100000, 1);
    arena_->Free(pointer.value());
  }
  EXPECT_EQ(sim::Snapshot().host_allocations - before, 1u);
}

// A graph that recorded an address keeps it, however the arena grows and shrinks around it.
TEST_F(ArenaTest, WhatAGraphRecordedStaysWithItsStream) {
  Make({.extend_strategy = ExtendStrategy::kSameAsRequested});
  arena_->ExpectCaptures(stream(0));
  arena_->Free(On(2 * kMiB, stream(0)));
  Synchronize(0);
  ASSERT_OK(device::StreamBeginCapture(stream(0), device::CaptureMode::kGlobal));
  auto* const recorded = static_cast<char*>(On(2 * kMiB, stream(0)));
  ASSERT_OK(device::MemsetAsync(recorded, 1, 2 * kMiB, stream(0)));
  arena_->Free(recorded);
  device::UniqueGraph graph;
  ASSERT_OK(device::StreamEndCapture(stream(0), graph.Receive()));
  device::UniqueGraphExec exec;
  ASSERT_OK(device::GraphInstantiate(exec.Receive(), graph.get()));
  arena_->Free(On(4 * kMiB, stream(0)));
  Synchronize(0);
  auto* const other = static_cast<char*>(On(2 * kMiB, stream(1)));
  EXPECT_TRUE(other + 2 * kMiB <= recorded || other >= recorded + 2 * kMiB);
  arena_->Free(other);
  ASSERT_OK(arena_->Shrink());
  ASSERT_OK(device::GraphLaunch(exec.get(), stream(0)));
  ASSERT_OK(device::StreamSynchronize(stream(0)));
}

TEST_F(ArenaTest, PinnedMemoryIsNotReusedUnderAQueuedCopy) {
  arena_ = std::make_unique<Arena>(MemorySource{MemoryKind::kPinnedHost, 0}, ArenaConfig{});
  auto* const target = Allocate<uint8_t>(4096);
  for (const size_t offset : {size_t{0}, size_t{100}}) {  // also by a part of the memory
    auto* const first = static_cast<uint8_t*>(On(4096, stream()));
    std::fill_n(first, 4096, uint8_t{1});
    ASSERT_OK(device::MemcpyAsync(target, first + offset, 1000, stream()));
    ASSERT_TRUE(arena_->Owns(first + offset));
    arena_->UsedOn(first + offset, stream());
    arena_->Free(first);
    auto* const second = static_cast<uint8_t*>(On(4096, stream()));  // the stream's next request is written at once
    EXPECT_NE(second, first);
    std::fill_n(second, 4096, uint8_t{2});
    EXPECT_EQ(Download(target, 1000), std::vector<uint8_t>(1000, 1));
    arena_->Free(second);
  }
  uint8_t stranger[16];
  EXPECT_FALSE(arena_->Owns(stranger));
  arena_->UsedOn(stranger, stream());
}

TEST_F(ArenaTest, PinnedMemoryThatNoCopyUsesIsFreeAtOnce) {
  arena_ = std::make_unique<Arena>(MemorySource{MemoryKind::kPinnedHost, 0}, ArenaConfig{});
  const sim::Counters before = sim::Snapshot();
  void* const first = On(4096, stream());
  arena_->Free(first);
  EXPECT_EQ(On(4096, stream(1)), first);
  const sim::Counters spent = sim::Snapshot() - before;
  EXPECT_EQ(spent.event_records + spent.queries + spent.event_waits, 0u);
}

// The driver may take milliseconds and other locks: nobody may spin for that long.
TEST_F(ArenaTest, TheDriverIsNotCalledUnderASpinLock) {
  SpinLock lock;
  {
    std::lock_guard guard(lock);
    EXPECT_FAILS(device::StreamSynchronize(stream()), kInternal, "spin lock");  // the device would tell
  }
  Make({.max_bytes = 64 * kMiB, .extend_strategy = ExtendStrategy::kSameAsRequested, .slack_bytes = 0});
  for (int round = 0; round < 20; ++round) {
    std::vector<void*> live;
    for (size_t i = 0; i < 12; ++i) live.push_back(On((1 + i * 7 % 5) * kMiB, stream(static_cast<int>(i % 3))));
    for (void* pointer : live) arena_->Free(pointer);
    Result<void*> untagged = arena_->Allocate(48 * kMiB), reserved = arena_->Reserve(kMiB);
    ASSERT_OK(untagged.status());
    ASSERT_OK(reserved.status());
    EXPECT_FAILS(arena_->AllocateOnStream(size_t{1} << 40, stream()).status(), kOutOfMemory, "limit");
    arena_->Free(untagged.value());
    arena_->Free(reserved.value());
    if (round % 5 == 4) ASSERT_OK(arena_->Shrink());
    if (round % 5 == 2) Synchronize(round % 3);
  }
  EXPECT_EQ(SpinLock::held(), 0);
  EXPECT_GT(arena_->Stats().searches, 20);
  EXPECT_GT(arena_->Stats().driver_frees, 20);
}

TEST_F(ArenaTest, SmallLimitsAreUsable) {
  Make({.max_bytes = 3 * kMiB});
  On(5 * kMiB / 2, stream());
  Make({}, std::make_shared<Budget>(1000000));
  On(900000, stream());
}

TEST_F(ArenaTest, AFailedReserveIsCounted) {
  Make();
  sim::FailCall(sim::CallKind::kMalloc, 1, Status(StatusCode::kDeviceError, "planned"));
  EXPECT_FALSE(arena_->Reserve(1000).ok());
  EXPECT_EQ(arena_->Stats().failures, 1);
}

}  // namespace
}  // namespace cudaep::memory
