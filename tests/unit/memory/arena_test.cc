// What is the arena's own, apart from the allocator contract: its bound, its growth, what a hit costs.
#include "memory/arena.h"

#include <algorithm>
#include <random>

#include "../device/device_fixture.h"
#include "memory/allocation_label.h"

namespace cudaep::memory {
namespace {

namespace sim = device::sim;

constexpr size_t kMiB = size_t{1} << 20;

class ArenaTest : public device::testing::DeviceTest {
 protected:
  void TearDown() override {
    arena_.reset();
    DeviceTest::TearDown();
  }
  void Make(const ArenaConfig& config = {}, std::shared_ptr<Budget> budget = nullptr) {
    arena_ = std::make_unique<Arena>(MemorySource{MemoryKind::kDevice, 0, std::move(budget)}, config);
  }
  void* On(size_t bytes, device::Stream stream) {
    Result<void*> pointer = arena_->AllocateOnStream(bytes, stream);
    EXPECT_TRUE(pointer.ok()) << pointer.status().ToString();
    return pointer.value();
  }
  int64_t Reserved() const { return arena_->Stats().bytes_reserved; }
  void Synchronize(int index) {
    ASSERT_OK(device::StreamSynchronize(stream(index)));
    arena_->StreamIdle(stream(index));
  }

  std::unique_ptr<Arena> arena_;
};

// Runs of one model with a random batch on eight streams, interleaved node by node: each node's output is as large as
// the batch times a constant of the node, and lives until a later node has read it. Outputs of the model live longer.
class ModelRuns {
 public:
  ModelRuns(Arena* arena, bool tells_idle, unsigned seed) : arena_(arena), tells_idle_(tells_idle), random_(seed) {
    for (Node& node : nodes_) {
      node.bytes_per_item = (size_t{1} << (12 + random_() % 8)) + random_() % 5000;
      node.reader = static_cast<size_t>(&node - nodes_) + 1 + random_() % 4;
    }
    for (Lane& lane : lanes_) {
      EXPECT_TRUE(device::StreamCreate(lane.stream.Receive()).ok());
      Begin(&lane);
    }
  }
  ~ModelRuns() {
    for (Lane& lane : lanes_) {
      End(&lane);
      device::StreamSynchronize(lane.stream.get()).IgnoreError();
      arena_->ReleaseStream(lane.stream.get());
    }
  }

  void Go(int runs) {
    for (const int until = runs_ + runs; runs_ < until;) {
      Lane& lane = lanes_[random_() % std::size(lanes_)];
      if (lane.next == kNodes) {
        End(&lane);
        ++runs_;
        Begin(&lane);
        continue;
      }
      const size_t bytes = nodes_[lane.next].bytes_per_item * lane.batch;
      Result<void*> pointer = arena_->AllocateOnStream(bytes, lane.stream.get());
      ASSERT_TRUE(pointer.ok()) << pointer.status().ToString();
      lane.live[lane.next] = {pointer.value(), bytes};
      live_ += bytes;
      peak_ = std::max(peak_, live_);
      for (size_t i = 0; i < lane.next; ++i) {
        if (nodes_[i].reader == lane.next) Free(&lane.live[i]);
      }
      ++lane.next;
    }
  }
  size_t peak() const { return peak_; }

 private:
  static constexpr size_t kNodes = 60;
  struct Node {
    size_t bytes_per_item, reader;
  };
  struct Live {
    void* pointer = nullptr;
    size_t bytes = 0;
  };
  struct Lane {
    device::UniqueStream stream;
    Live live[kNodes];
    size_t batch = 1, next = 0;
  };
  void Begin(Lane* lane) {
    lane->batch = 1 + random_() % 100;
    lane->next = 0;
  }
  void Free(Live* live) {
    arena_->Free(live->pointer);
    live_ -= live->bytes;
    *live = {};
  }
  void End(Lane* lane) {
    for (Live& live : lane->live) Free(&live);
    if (!tells_idle_) return;
    device::StreamSynchronize(lane->stream.get()).IgnoreError();
    arena_->StreamIdle(lane->stream.get());
  }

  Arena* arena_;
  bool tells_idle_;
  std::mt19937 random_;
  Node nodes_[kNodes];
  Lane lanes_[8];
  size_t live_ = 0, peak_ = 0;
  int runs_ = 0;
};

struct Load {
  const char* name;
  ExtendStrategy strategy;
  bool tells_idle;
  sim::Mode mode;
  int rounds;  // of a thousand Runs
};
class ArenaBoundTest : public ArenaTest, public ::testing::WithParamInterface<Load> {};

// The same thousand Runs again and again: once their peak is known, nothing may grow any more.
TEST_P(ArenaBoundTest, RandomRunsStayWithinTheBoundAndDoNotGrow) {
  const Load& load = GetParam();
  Start(With(load.mode));
  Make({.extend_strategy = load.strategy});
  size_t peak = 0;
  int64_t early = 0;
  for (int round = 0; round < load.rounds; ++round) {
    ModelRuns runs(arena_.get(), load.tells_idle, 7);
    runs.Go(1000);
    peak = std::max(peak, runs.peak());
    if (round == load.rounds / 2) early = arena_->Stats().peak_bytes_reserved;
  }
  const AllocatorStats stats = arena_->Stats();
  const double ratio = static_cast<double>(stats.peak_bytes_reserved) / static_cast<double>(peak);
  RecordProperty("reserved_over_peak_percent", static_cast<int>(100 * ratio));
  RecordProperty("peak_mib", static_cast<int>(peak / kMiB));
  RecordProperty("stream_waits", static_cast<int>(stats.stream_waits));
  RecordProperty("compactions", static_cast<int>(stats.compactions));
  RecordProperty("driver_allocations", static_cast<int>(stats.driver_allocations));
  EXPECT_LE(ratio, 1.25);
  EXPECT_EQ(stats.peak_bytes_reserved, early) << "it grows";
}

INSTANTIATE_TEST_SUITE_P(
    Loads, ArenaBoundTest,
    ::testing::Values(Load{"doubling", ExtendStrategy::kNextPowerOfTwo, true, sim::Mode::kLate, 10},
                      Load{"exact", ExtendStrategy::kSameAsRequested, true, sim::Mode::kLate, 2},
                      Load{"nobody_waits", ExtendStrategy::kNextPowerOfTwo, false, sim::Mode::kEager, 2}),
    [](const auto& info) { return info.param.name; });

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
  for (int round = 0; round < 100; ++round) {
    Result<void*> input = arena_->Allocate(3 * kMiB);
    ASSERT_OK(input.status());
    ASSERT_OK(device::MemsetAsync(input.value(), 1, 3 * kMiB, stream(round % 3)));
    arena_->Free(input.value());
    Synchronize(0), Synchronize(1), Synchronize(2);
    if (round == 2) taken = arena_->Stats().driver_allocations;
  }
  EXPECT_EQ(arena_->Stats().driver_allocations, taken);
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
  Make({.extend_strategy = ExtendStrategy::kSameAsRequested});
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

TEST_F(ArenaTest, AShrinkKeepsWhatLiesBelowALiveChunk) {
  Make({.extend_strategy = ExtendStrategy::kSameAsRequested});
  void* const low = On(64 * kMiB, stream());
  void* const kept = On(4096, stream());
  arena_->Free(On(32 * kMiB, stream()));
  arena_->Free(low);
  ASSERT_OK(arena_->Shrink());
  EXPECT_EQ(Reserved(), static_cast<int64_t>(66 * kMiB));
  arena_->Free(kept);
  ASSERT_OK(arena_->Shrink());
  EXPECT_EQ(Reserved(), 0);
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
  EXPECT_EQ(arena_->Stats().bytes_in_use, static_cast<int64_t>(64 * kMiB));
  arena_->Free(most);
  Make({.extend_strategy = ExtendStrategy::kSameAsRequested, .max_dead_bytes_per_chunk = 0});
  arena_->Free(On(64 * kMiB, stream()));
  On(63 * kMiB, stream());
  EXPECT_EQ(arena_->Stats().bytes_in_use, static_cast<int64_t>(63 * kMiB));
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
  arena_->AddStream(stream());
  auto* const target = Allocate<uint8_t>(4096);
  Result<void*> first = arena_->Allocate(4096);
  ASSERT_OK(first.status());
  std::fill_n(static_cast<uint8_t*>(first.value()), 4096, uint8_t{1});
  ASSERT_OK(device::MemcpyAsync(target, first.value(), 4096, stream()));
  arena_->Free(first.value());
  Result<void*> second = arena_->Allocate(4096);
  ASSERT_OK(second.status());
  std::fill_n(static_cast<uint8_t*>(second.value()), 4096, uint8_t{2});
  EXPECT_EQ(Download(target, 1)[0], 1);
  arena_->Free(second.value());
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

TEST(ChunkBins, TheBestFitIsFoundAmongManySizes) {
  ChunkHeap heap;
  ChunkBins bins;
  std::mt19937 random(3);
  static char memory[1];
  std::vector<Chunk*> chunks;
  for (int i = 0; i < 200; ++i) {
    Chunk* chunk = heap.AddRegion(memory + (static_cast<size_t>(i) << 30), 256 * (1 + random() % 100000));
    chunk->stamp = random() % 10;
    chunks.push_back(chunk);
    bins.Insert(chunk);
  }
  for (int i = 0; i < 1000; ++i) {
    const size_t bytes = 256 * (1 + random() % 110000);
    const uint64_t newest = random() % 12;
    const Chunk* const found = bins.Find(bytes, newest);
    const Chunk* best = nullptr;
    for (const Chunk* chunk : chunks) {
      if (chunk->bytes < bytes || chunk->stamp > newest) continue;
      if (best == nullptr || chunk->bytes < best->bytes) best = chunk;
    }
    ASSERT_EQ(found == nullptr, best == nullptr);
    if (best == nullptr) continue;
    EXPECT_EQ(found->bytes, best->bytes);
  }
  for (Chunk* chunk : chunks) bins.Remove(chunk);
  EXPECT_TRUE(bins.empty());
  EXPECT_EQ(bins.bytes(), 0u);
  EXPECT_EQ(bins.Any(), nullptr);
}

TEST(ChunkHeap, LiveChunksAreFoundAfterManyChanges) {
  ChunkHeap heap;
  static char memory[1];
  std::vector<Chunk*> live;
  std::mt19937 random(11);
  Chunk* rest = heap.AddRegion(memory, size_t{256} * 5000);
  for (int i = 0; i < 4000; ++i) {
    Chunk* const chunk = rest;
    rest = heap.Split(chunk, 256);
    heap.AddLive(chunk);
    live.push_back(chunk);
    if (random() % 2 == 0) {
      std::swap(live[random() % live.size()], live.back());
      ASSERT_EQ(heap.TakeLive(live.back()->data), live.back());
      ASSERT_EQ(heap.TakeLive(live.back()->data), nullptr);
      live.pop_back();
    }
  }
  EXPECT_EQ(heap.live_count(), live.size());
  for (Chunk* chunk : live) EXPECT_EQ(heap.TakeLive(chunk->data), chunk);
}

}  // namespace
}  // namespace cudaep::memory
