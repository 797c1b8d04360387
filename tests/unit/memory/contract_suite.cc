#include "contract_suite.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <thread>

#include "memory/allocation_label.h"
#include "memory/out_of_memory.h"

namespace cudaep::memory::testing {
namespace {

namespace sim = device::sim;

constexpr size_t kSizes[] = {1, 255, 256, 257, 4096, 100000, (size_t{1} << 20) + 1};

TEST_P(AllocatorContract, MemoryIsAlignedAndNothingIsNull) {
  EXPECT_EQ(On(0, stream()), nullptr);
  Result<void*> none = allocator_->Allocate(0);
  ASSERT_OK(none.status());
  EXPECT_EQ(none.value(), nullptr);
  for (size_t bytes : kSizes) {
    Result<void*> untagged = allocator_->Allocate(bytes), reserved = allocator_->Reserve(bytes);
    ASSERT_OK(untagged.status());
    ASSERT_OK(reserved.status());
    void* const tagged = On(bytes, stream());
    for (void* pointer : {tagged, untagged.value(), reserved.value()}) {
      ASSERT_NE(pointer, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(pointer) % kAlignmentBytes, 0u);
      allocator_->Free(pointer);
    }
  }
  EXPECT_EQ(allocator_->Stats().bytes_in_use, 0);
}

TEST_P(AllocatorContract, HugeRequestsAreRefusedAndNothingIsLost) {
  for (size_t bytes : {SIZE_MAX, SIZE_MAX - 255, SIZE_MAX / 2 + 1, size_t{1} << 60, size_t{1} << 40}) {
    for (const Status& status : {allocator_->AllocateOnStream(bytes, stream()).status(),
                                 allocator_->Allocate(bytes).status(), allocator_->Reserve(bytes).status()}) {
      EXPECT_EQ(status.code(), StatusCode::kOutOfMemory) << status.ToString();
      EXPECT_TRUE(status.message().starts_with(kOutOfMemoryCode)) << status.ToString();
      EXPECT_NE(status.message().find(std::to_string(bytes)), std::string_view::npos) << status.ToString();
    }
  }
  EXPECT_EQ(allocator_->Stats().failures, 15);
  allocator_->Free(On(1000, stream()));
}

TEST_P(AllocatorContract, StrangersAreIgnored) {
  void* const own = On(1000, stream());
  char local[1024];
  allocator_->Free(nullptr);
  allocator_->Free(local);
  allocator_->Free(static_cast<char*>(own) + 256);
  EXPECT_GT(allocator_->Stats().bytes_in_use, 0);
  allocator_->Free(own);
  allocator_->Free(own);
  EXPECT_EQ(allocator_->Stats().bytes_in_use, 0);
}

TEST_P(AllocatorContract, EachChunkIsItsOwn) {
  std::mt19937 random(5);
  struct Written {
    uint8_t* pointer;
    size_t bytes;
  };
  std::vector<Written> written;
  for (int i = 0; i < 60; ++i) {
    const size_t bytes = 1 + random() % 20000;
    written.push_back({static_cast<uint8_t*>(On(bytes, stream())), bytes});
    ASSERT_OK(device::MemsetAsync(written.back().pointer, i + 1, bytes, stream()));
    if (i % 3 == 2) {  // room for later ones in between
      allocator_->Free(written[written.size() - 2].pointer);
      written.erase(written.end() - 2);
    }
  }
  for (const Written& w : written) {
    const std::vector<uint8_t> values = Download(w.pointer, w.bytes);
    EXPECT_EQ(std::count(values.begin(), values.end(), values[0]), static_cast<ptrdiff_t>(w.bytes));
    allocator_->Free(w.pointer);
  }
}

// The simulated device runs nothing before somebody waits, and refuses unordered use of one piece of memory.
TEST_P(AllocatorContract, AnotherStreamGetsMemoryInOrder) {
  constexpr size_t kBytes = 65536;
  auto* const result = AllocatePinned<uint8_t>(kBytes);
  for (int round = 0; round < 20; ++round) {
    const int from = round % 3, to = (round + 1) % 3;
    void* const first = On(kBytes, stream(from));
    ASSERT_OK(device::MemsetAsync(first, 1, kBytes, stream(from)));
    ASSERT_OK(device::MemcpyAsync(result, first, kBytes, stream(from)));
    allocator_->Free(first);
    void* const second = On(kBytes, stream(to));
    ASSERT_OK(device::MemsetAsync(second, 2, kBytes, stream(to)));
    allocator_->Free(second);
    ASSERT_OK(device::StreamSynchronize(stream(to)));
    ASSERT_OK(device::StreamSynchronize(stream(from)));
    EXPECT_EQ(std::count(result, result + kBytes, 1), static_cast<ptrdiff_t>(kBytes));
  }
}

// Two threads on one stream: one waits, the other queues work and frees meanwhile. What it freed is not done.
TEST_P(AllocatorContract, AWaitSaysNothingOfWhatWasFreedBehindItsMark) {
  constexpr size_t kBytes = 65536;
  auto* const result = AllocatePinned<uint8_t>(kBytes);
  for (const bool tagged : {true, false}) {
    const auto allocate = [&](device::Stream own) {
      Result<void*> pointer = tagged ? allocator_->AllocateOnStream(kBytes, own) : allocator_->Allocate(kBytes);
      EXPECT_OK(pointer.status());
      return pointer.value();
    };
    allocator_->Free(allocate(stream()));
    void* const first = allocate(stream());
    const StreamMark before = allocator_->Mark(stream());
    ASSERT_OK(device::StreamSynchronize(stream()));
    ASSERT_OK(device::MemsetAsync(first, 1, kBytes, stream()));
    ASSERT_OK(device::MemcpyAsync(result, first, kBytes, stream()));
    allocator_->Free(first);
    allocator_->Reached(before);
    void* const second = allocate(stream(1));
    ASSERT_OK(device::MemsetAsync(second, 2, kBytes, stream(1)));
    ASSERT_OK(device::StreamSynchronize(stream(1)));
    ASSERT_OK(device::StreamSynchronize(stream()));
    EXPECT_EQ(std::count(result, result + kBytes, 1), static_cast<ptrdiff_t>(kBytes));
    allocator_->Free(second);
  }
}

// Handles are reused: a mark of a stream that is gone says nothing of the next one.
TEST_P(AllocatorContract, AMarkEndsWithItsStream) {
  constexpr size_t kBytes = 65536;
  device::UniqueStream own;
  ASSERT_OK(device::StreamCreate(own.Receive()));
  allocator_->AddStream(own.get());
  for (int i = 0; i < 5; ++i) allocator_->Free(On(kBytes, own.get()));
  const StreamMark before = allocator_->Mark(own.get());
  ASSERT_OK(device::StreamSynchronize(own.get()));
  allocator_->ReleaseStream(own.get());
  allocator_->AddStream(own.get());  // as another stream with the same handle would
  void* const first = On(kBytes, own.get());
  ASSERT_OK(device::MemsetAsync(first, 1, kBytes, own.get()));
  allocator_->Free(first);
  allocator_->Reached(before);
  void* const second = On(kBytes, stream(1));
  ASSERT_OK(device::MemsetAsync(second, 2, kBytes, stream(1)));
  allocator_->Free(second);
  ASSERT_OK(device::DeviceSynchronize());
  allocator_->ReleaseStream(own.get());
}

TEST_P(AllocatorContract, UntaggedMemoryIsReusedOnlyAfterAllStreams) {
  constexpr size_t kBytes = 4096;
  for (int round = 0; round < 12; ++round) {
    Result<void*> pointer = allocator_->Allocate(kBytes);
    ASSERT_OK(pointer.status());
    ASSERT_OK(device::MemsetAsync(pointer.value(), round, kBytes, stream(round % 3)));
    allocator_->Free(pointer.value());
    if (round % 4 == 3) Synchronize(round % 3);
  }
}

TEST_P(AllocatorContract, ChunksOutliveTheirStream) {
  device::UniqueStream own;
  ASSERT_OK(device::StreamCreate(own.Receive()));
  allocator_->AddStream(own.get());
  void* const live = On(5000, own.get());
  allocator_->Free(On(7000, own.get()));
  ASSERT_OK(device::MemsetAsync(live, 3, 5000, own.get()));
  ASSERT_OK(device::StreamSynchronize(own.get()));
  allocator_->ReleaseStream(own.get());
  own = {};
  EXPECT_EQ(Download(static_cast<uint8_t*>(live), 1)[0], 3);
  allocator_->Free(live);
  for (int i = 0; i < 3; ++i) {
    void* const next = On(5000, stream(i));
    ASSERT_OK(device::MemsetAsync(next, 4, 5000, stream(i)));
    allocator_->Free(next);
  }
}

TEST_P(AllocatorContract, StreamsComeAndGoWithoutATrace) {
  int64_t reserved = 0;
  for (int round = 0; round < 200; ++round) {
    device::UniqueStream own;
    ASSERT_OK(device::StreamCreate(own.Receive()));
    allocator_->AddStream(own.get());
    std::array<void*, 4> chunks;
    for (size_t i = 0; i < chunks.size(); ++i) chunks[i] = On(3000 * (i + 1), own.get());
    for (void* chunk : chunks) ASSERT_OK(device::MemsetAsync(chunk, 1, 3000, own.get()));
    for (void* chunk : chunks) allocator_->Free(chunk);
    ASSERT_OK(device::StreamSynchronize(own.get()));
    allocator_->ReleaseStream(own.get());
    if (round == 3) reserved = allocator_->Stats().bytes_reserved;
  }
  EXPECT_LE(allocator_->Stats().bytes_reserved, reserved);
}

TEST_P(AllocatorContract, ManyThreadsAtOnce) {
  constexpr int kThreads = 8;
  std::vector<device::UniqueStream> streams(kThreads);
  for (auto& each : streams) ASSERT_OK(device::StreamCreate(each.Receive()));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    allocator_->AddStream(streams[static_cast<size_t>(t)].get());
    threads.emplace_back([this, t, own = streams[static_cast<size_t>(t)].get()] {
      std::mt19937 random(static_cast<unsigned>(t));
      std::vector<void*> live;
      for (int step = 0; step < 300; ++step) {
        const size_t bytes = 1 + random() % 50000;
        Result<void*> pointer =
            random() % 8 == 0 ? allocator_->Allocate(bytes) : allocator_->AllocateOnStream(bytes, own);
        ASSERT_OK(pointer.status());
        ASSERT_OK(device::MemsetAsync(pointer.value(), t, bytes, own));
        live.push_back(pointer.value());
        if (live.size() > 5 || random() % 2 == 0) {
          std::swap(live[random() % live.size()], live.back());
          allocator_->Free(live.back());
          live.pop_back();
        }
        if (step % 50 == 49) {
          const StreamMark before = allocator_->Mark(own);
          ASSERT_OK(device::StreamSynchronize(own));
          allocator_->Reached(before);
        }
        if (step % 100 == 99 && t == 0) ASSERT_OK(allocator_->Shrink());
      }
      for (void* pointer : live) allocator_->Free(pointer);
      ASSERT_OK(device::StreamSynchronize(own));
      allocator_->ReleaseStream(own);
    });
  }
  for (auto& thread : threads) thread.join();
  const AllocatorStats stats = allocator_->Stats();
  EXPECT_EQ(stats.bytes_in_use, 0);
  EXPECT_EQ(stats.allocations, kThreads * 300);
  EXPECT_EQ(stats.failures, 0);
  ASSERT_OK(device::DeviceSynchronize());
}

TEST_P(AllocatorContract, TheStatisticsAddUp) {
  const LabelScope label(InternLabel("node one"));
  void* const a = On(1000, stream());
  const AllocatorStats one = allocator_->Stats();
  EXPECT_GE(one.bytes_in_use, 1000);
  EXPECT_GE(one.bytes_reserved, one.bytes_in_use);
  EXPECT_EQ(static_cast<size_t>(one.bytes_reserved), budget_->charged_bytes());
  EXPECT_EQ(one.allocations, 1);
  EXPECT_GE(one.largest_allocation_bytes, 1000);
  Result<void*> reserved = allocator_->Reserve(500000);
  ASSERT_OK(reserved.status());
  EXPECT_EQ(allocator_->Stats().reserves, 1);
  const std::vector<MemoryUser> users = allocator_->LargestUsers(5);
  ASSERT_EQ(users.size(), 1u);
  EXPECT_STREQ(users[0].label, "node one");
  EXPECT_EQ(users[0].chunks, 2u);
  EXPECT_EQ(static_cast<int64_t>(users[0].bytes), allocator_->Stats().bytes_in_use);
  allocator_->Free(a);
  allocator_->Free(reserved.value());
  const AllocatorStats end = allocator_->Stats();
  EXPECT_EQ(end.bytes_in_use, 0);
  EXPECT_GE(end.peak_bytes_in_use, 501000);
  EXPECT_GE(end.peak_bytes_reserved, end.peak_bytes_in_use);
  EXPECT_TRUE(allocator_->LargestUsers(5).empty());
}

TEST_P(AllocatorContract, ShrinkGivesEverythingIdleBack) {
  for (int i = 0; i < 3; ++i) {
    std::vector<void*> chunks;
    for (size_t bytes : kSizes) chunks.push_back(On(bytes, stream(i)));
    for (void* chunk : chunks) ASSERT_OK(device::MemsetAsync(chunk, 1, 1, stream(i)));
    for (void* chunk : chunks) allocator_->Free(chunk);
  }
  ASSERT_OK(allocator_->Shrink());  // the work is still queued
  EXPECT_EQ(allocator_->Stats().bytes_reserved, 0);
  EXPECT_EQ(allocator_->Stats().shrinks, 1);
  allocator_->Free(On(100, stream()));
}

TEST_P(AllocatorContract, AFailureAtAnyRequestIsAStatus) {
  int failures = 0;
  for (uint64_t nth = 1; nth < 200; ++nth) {
    Renew();
    sim::OutOfMemoryAt(nth);
    std::vector<void*> live;
    bool failed = false;
    for (size_t i = 0; i < 12; ++i) {
      Result<void*> pointer = i % 4 == 3
                                  ? allocator_->Reserve(kSizes[i % 7])
                                  : allocator_->AllocateOnStream(kSizes[i % 7] * 7, stream(static_cast<int>(i % 3)));
      if (pointer.ok()) {
        live.push_back(pointer.value());
        continue;
      }
      failed = true;
      ASSERT_EQ(pointer.status().code(), StatusCode::kOutOfMemory) << pointer.status().ToString();
      ASSERT_TRUE(pointer.status().message().starts_with(kOutOfMemoryCode)) << pointer.status().ToString();
    }
    sim::ClearFaults();
    failures += failed;
    for (void* pointer : live) allocator_->Free(pointer);
    allocator_->Free(On(3 << 20, stream()));
    ASSERT_EQ(allocator_->Stats().bytes_in_use, 0);
    if (!failed && nth > 30) break;
  }
  EXPECT_EQ(budget_->charged_bytes(), static_cast<size_t>(allocator_->Stats().bytes_reserved));
}

TEST_P(AllocatorContract, AnyOrderOfReleaseWillDo) {
  std::array<int, 5> order;
  std::iota(order.begin(), order.end(), 0);
  do {
    std::array<void*, 5> chunks;
    for (size_t i = 0; i < 5; ++i) chunks[i] = On(1000 * (i + 1), stream(static_cast<int>(i % 2)));
    for (int i : order) allocator_->Free(chunks[static_cast<size_t>(i)]);
    Synchronize(0);
    Synchronize(1);
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(allocator_->Stats().bytes_in_use, 0);
}

TEST_P(AllocatorContract, TheBudgetHolds) {
  Renew(size_t{8} << 20);
  const Status status = allocator_->AllocateOnStream(size_t{9} << 20, stream()).status();
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_NE(status.message().find("limit 8 MiB"), std::string_view::npos) << status.ToString();
  void* const half = On(size_t{3} << 20, stream());
  EXPECT_LE(budget_->charged_bytes(), size_t{8} << 20);
  EXPECT_FALSE(allocator_->AllocateOnStream(size_t{6} << 20, stream(1)).ok());
  allocator_->Free(half);
  allocator_->Free(On(size_t{4} << 20, stream(1)));  // after what is idle went back
}

// Warm or not, a request on a capturing stream leaves the capture valid, and what it got is nobody else's later.
TEST_P(AllocatorContract, ACaptureIsNotDisturbed) {
  constexpr size_t kBytes = 8192;
  allocator_->ExpectCaptures(stream());
  allocator_->Free(On(kBytes, stream()));
  Synchronize(0);
  const auto before = sim::Snapshot();
  ASSERT_OK(device::StreamBeginCapture(stream(), device::CaptureMode::kGlobal));
  Result<void*> taken = allocator_->AllocateOnStream(kBytes, stream());
  if (taken.ok()) {
    EXPECT_OK(device::MemsetAsync(taken.value(), 1, kBytes, stream()));
    allocator_->Free(taken.value());
  } else {
    EXPECT_EQ(taken.status().code(), StatusCode::kFailedPrecondition) << taken.status().ToString();
  }
  EXPECT_FALSE(allocator_->AllocateOnStream(size_t{64} << 20, stream()).ok());
  void* const other = On(size_t{20} << 20, stream(1));  // other streams go on
  device::UniqueGraph graph;
  ASSERT_OK(device::StreamEndCapture(stream(), graph.Receive()));
  EXPECT_EQ((sim::Snapshot() - before).synchronizations(), 0u);
  allocator_->Free(other);
  device::UniqueGraphExec exec;
  ASSERT_OK(device::GraphInstantiate(exec.Receive(), graph.get()));
  if (taken.ok()) {
    std::vector<void*> others;
    for (int i = 0; i < 20; ++i) others.push_back(On(kBytes, stream(1)));
    EXPECT_EQ(std::count(others.begin(), others.end(), taken.value()), 0);
    for (void* pointer : others) ASSERT_OK(device::MemsetAsync(pointer, 2, kBytes, stream(1)));
    ASSERT_OK(device::GraphLaunch(exec.get(), stream()));
    for (void* pointer : others) allocator_->Free(pointer);
  }
  ASSERT_OK(device::DeviceSynchronize());
}

}  // namespace
}  // namespace cudaep::memory::testing
