// The caches in front of the arena's lock, alone and in the arena.
#include "memory/arena/stream_cache.h"

#include <thread>

#include "arena_fixture.h"
#include "memory/allocation_label.h"

namespace cudaep::memory {
namespace {

using testing::ArenaTest;
using testing::kMiB;
using Answer = StreamCache::Answer;

device::Stream FakeStream(uintptr_t handle) { return reinterpret_cast<device::Stream>(handle); }

class StreamCacheTest : public ::testing::Test {
 protected:
  StreamCacheTest() { cache_.Open(kStream, 1); }
  // A chunk that the arena handed out after the cache had none.
  Chunk* HandOut(size_t bytes) {
    EXPECT_EQ(cache_.Pop(kStream, bytes), nullptr);
    Chunk* const chunk = heap_.AddRegion(memory_ + 256 * count_++, bytes);
    chunk->requested = bytes;
    chunk->life = 1;
    return chunk;
  }

  const device::Stream kStream = FakeStream(0x100);
  PointCounter points_;
  StreamCache cache_{&points_};
  ChunkHeap heap_;
  char memory_[1];
  size_t count_ = 0;
};

TEST_F(StreamCacheTest, ASizeIsKeptFromItsSecondRequestOn) {
  Chunk* const once = HandOut(512);
  EXPECT_EQ(cache_.Push(once), Answer::kRefused);
  Chunk* const twice = HandOut(512);
  EXPECT_EQ(cache_.Push(twice), Answer::kTaken);
  EXPECT_EQ(cache_.Pop(kStream, 256), nullptr);
  EXPECT_EQ(cache_.Pop(FakeStream(0x200), 512), nullptr);
  EXPECT_EQ(cache_.Pop(kStream, 512), twice);
  EXPECT_EQ(cache_.Pop(kStream, 512), nullptr);
  EXPECT_EQ(cache_.hits(), 1);
}

TEST_F(StreamCacheTest, AnIdleStreamGivesUpItsChunksAndRemembersWhatRepeats) {
  Chunk* const first = HandOut(512);
  Chunk* const second = HandOut(512);
  Chunk* const rare = HandOut(1024);
  EXPECT_EQ(cache_.Push(first), Answer::kTaken);
  EXPECT_EQ(cache_.Push(second), Answer::kTaken);
  EXPECT_EQ(cache_.Push(rare), Answer::kRefused);
  const Chunk* const held = cache_.Idle();
  EXPECT_EQ(held, first);
  EXPECT_EQ(held->bin_after, second);
  EXPECT_EQ(cache_.Push(HandOut(512)), Answer::kTaken);  // known to repeat
  cache_.Idle();                                         // once this time
  EXPECT_EQ(cache_.Push(HandOut(512)), Answer::kRefused);
}

TEST_F(StreamCacheTest, ChunksOfAnotherLifeAreRefused) {
  HandOut(512);
  Chunk* const chunk = HandOut(512);
  EXPECT_EQ(cache_.Close(), nullptr);
  EXPECT_EQ(cache_.Push(chunk), Answer::kRefused);
  EXPECT_EQ(cache_.Pop(kStream, 512), nullptr);
  cache_.Open(kStream, 2);
  HandOut(512);
  HandOut(512);
  EXPECT_EQ(cache_.Push(chunk), Answer::kRefused);
  chunk->life = 2;
  EXPECT_EQ(cache_.Push(chunk), Answer::kTaken);
  EXPECT_EQ(cache_.Push(chunk), Answer::kTwice);
}

TEST_F(StreamCacheTest, WhatItHoldsIsCounted) {
  HandOut(512);
  HandOut(1024);
  EXPECT_EQ(cache_.Push(HandOut(512)), Answer::kTaken);
  EXPECT_EQ(cache_.Push(HandOut(1024)), Answer::kTaken);
  EXPECT_EQ(cache_.held_bytes(), 1536u);
  cache_.Pop(kStream, 512);
  EXPECT_EQ(cache_.held_bytes(), 1024u);
  cache_.PopAll();
  EXPECT_EQ(cache_.held_bytes(), 0u);
}

TEST_F(StreamCacheTest, ManyMoreSizesThanItHoldsAreServedAllTheSame) {
  std::vector<Chunk*> kept;
  for (size_t i = 1; i <= 1000; ++i) {
    HandOut(256 * i);
    Chunk* const chunk = HandOut(256 * i);
    if (cache_.Push(chunk) == Answer::kTaken) kept.push_back(chunk);
  }
  EXPECT_GE(kept.size(), 100u);
  for (Chunk* chunk : kept) EXPECT_EQ(cache_.Pop(kStream, chunk->bytes), chunk);
}

// ---- In the arena -----------------------------------------------------------------------------------------------

TEST_F(ArenaTest, WhatACacheHoldsServesOthersBeforeTheArenaGrows) {
  Make({.extend_strategy = ExtendStrategy::kSameAsRequested, .slack_bytes = 0});
  for (int i = 0; i < 3; ++i) arena_->Free(On(100 * kMiB, stream(0)));
  EXPECT_EQ(Reserved(), static_cast<int64_t>(100 * kMiB));
  On(60 * kMiB, stream(1));
  EXPECT_EQ(Reserved(), static_cast<int64_t>(100 * kMiB));
  EXPECT_EQ(arena_->Stats().stream_waits, 1);
}

TEST_F(ArenaTest, AStreamKeepsItsCacheWhileTheArenaMayGrow) {
  Make({.extend_strategy = ExtendStrategy::kSameAsRequested});
  for (int i = 0; i < 3; ++i) arena_->Free(On(2 * kMiB, stream(0)));
  On(kMiB, stream(1));
  EXPECT_EQ(Reserved(), static_cast<int64_t>(4 * kMiB));
  const int64_t searches = arena_->Stats().searches;
  On(2 * kMiB, stream(0));
  EXPECT_EQ(arena_->Stats().searches, searches);
}

TEST_F(ArenaTest, ACachedChunkIsNobodysUse) {
  Make({.max_bytes = 16 * kMiB});
  const LabelScope label(InternLabel("Conv node 'cached'"));
  On(kMiB, stream());
  void* const pointer = On(kMiB, stream());
  arena_->Free(pointer);
  EXPECT_EQ(arena_->Stats().bytes_in_use, static_cast<int64_t>(kMiB));
  ASSERT_EQ(arena_->LargestUsers(10).size(), 1u);
  EXPECT_EQ(arena_->LargestUsers(10)[0].bytes, kMiB);
  arena_->Free(pointer);  // a second time: logged and ignored
  EXPECT_EQ(arena_->Stats().bytes_in_use, static_cast<int64_t>(kMiB));
  EXPECT_EQ(On(kMiB, stream()), pointer);
  EXPECT_NE(On(kMiB, stream()), pointer);
}

TEST_F(ArenaTest, AStreamThatMayCaptureHasNoCacheAnyMore) {
  Make({.extend_strategy = ExtendStrategy::kSameAsRequested});
  for (int i = 0; i < 3; ++i) arena_->Free(On(2 * kMiB, stream()));
  arena_->ExpectCaptures(stream());
  void* const half = On(kMiB, stream());  // cut from what the cache held
  EXPECT_EQ(Reserved(), static_cast<int64_t>(2 * kMiB));
  arena_->Free(half);
}

// Streams beyond those that have caches are served all the same, and slots of streams that ended serve new ones.
TEST_F(ArenaTest, ManyMoreStreamsThanCachesAreServed) {
  Make();
  for (int round = 0; round < 3; ++round) {
    std::vector<device::UniqueStream> streams(200);
    for (device::UniqueStream& own : streams) {
      ASSERT_OK(device::StreamCreate(own.Receive()));
      for (int i = 0; i < 4; ++i) {
        void* const pointer = On(4096, own.get());
        ASSERT_OK(device::MemsetAsync(pointer, i, 4096, own.get()));
        arena_->Free(pointer);
      }
    }
    EXPECT_EQ(arena_->Stats().bytes_in_use, 0);
    for (device::UniqueStream& own : streams) {
      ASSERT_OK(device::StreamSynchronize(own.get()));
      arena_->ReleaseStream(own.get());
    }
  }
  EXPECT_EQ(arena_->Stats().allocations, 3 * 200 * 4);
  ASSERT_OK(arena_->Shrink());
  EXPECT_EQ(Reserved(), 0);
}

TEST_F(ArenaTest, CountsOfManyThreadsAddUp) {
  Make();
  constexpr int kThreads = 3, kPairs = 20000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this, own = stream(i)] {
      constexpr size_t kSizes[] = {256, 4096, 700000, 256, 3 * kMiB};
      void* held[std::size(kSizes)] = {};
      for (int pair = 0; pair < kPairs; ++pair) {
        void*& slot = held[static_cast<size_t>(pair) % std::size(kSizes)];
        arena_->Free(slot);
        slot = On(kSizes[static_cast<size_t>(pair) % std::size(kSizes)], own);
        if (pair % 1000 == 999) arena_->Stats();
      }
      for (void* pointer : held) arena_->Free(pointer);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const AllocatorStats stats = arena_->Stats();
  EXPECT_EQ(stats.allocations, kThreads * kPairs);
  EXPECT_EQ(stats.bytes_in_use, 0);
  EXPECT_GE(stats.peak_bytes_in_use, static_cast<int64_t>(3 * kMiB));
  EXPECT_LE(stats.peak_bytes_in_use, static_cast<int64_t>(kThreads * 5 * kMiB));
  EXPECT_EQ(stats.failures, 0);
}

}  // namespace
}  // namespace cudaep::memory
