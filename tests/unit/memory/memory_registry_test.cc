#include "memory/memory_registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "device/sim/sim.h"

namespace cudaep::memory {
namespace {

std::shared_ptr<DeviceMemory> Acquire(const MemoryConfig& config) {
  Result<std::shared_ptr<DeviceMemory>> memory = AcquireDeviceMemory(config);
  EXPECT_TRUE(memory.ok()) << memory.status().ToString();
  return memory.ok() ? memory.value() : nullptr;
}

MemoryConfig WithLimit(size_t bytes) {
  MemoryConfig config;
  config.limit_bytes = bytes;
  return config;
}

void* MustAllocate(Allocator& allocator, size_t bytes, device::Stream stream = nullptr) {
  Result<void*> pointer = stream == nullptr ? allocator.Allocate(bytes) : allocator.AllocateOnStream(bytes, stream);
  EXPECT_TRUE(pointer.ok()) << pointer.status().ToString();
  return pointer.value();
}

class MemoryRegistry : public testing::Test {
 protected:
  void SetUp() override {
    device::sim::Configuration configuration;
    configuration.devices = 2;
    ASSERT_TRUE(device::sim::Configure(configuration).ok());
  }
  void TearDown() override { ASSERT_TRUE(device::sim::Configure({}).ok()); }
};

TEST_F(MemoryRegistry, EqualConfigurationsShareWhileSomebodyHoldsThem) {
  auto first = Acquire({}), second = Acquire({});
  EXPECT_EQ(first, second);
  first.reset();
  EXPECT_EQ(Acquire({}), second);
  const std::weak_ptr<DeviceMemory> gone = second;
  second.reset();
  EXPECT_TRUE(gone.expired());
}

TEST_F(MemoryRegistry, StatisticsSeeAllThatLivesAndNothingElse) {
  EXPECT_TRUE(AllLiveMemory().devices.empty());
  MemoryConfig other;
  other.ordinal = 1;
  auto first = Acquire({}), second = Acquire(WithLimit(size_t{1} << 30));
  const auto third = Acquire(other);
  void* const tensor = MustAllocate(*first->tensors(), 1000);
  void* const weight = first->weights()->Reserve(5000).value();
  void* const scratch = MustAllocate(*first->workspaces(), 300);
  EXPECT_EQ(first->Stats().tensors.bytes_in_use, 1024);
  EXPECT_EQ(first->Stats().weights.bytes_in_use, 5120);
  EXPECT_EQ(first->Stats().workspaces.bytes_in_use, 512);
  EXPECT_EQ(second->Stats().tensors.bytes_in_use, 0);
  const LiveMemory live = AllLiveMemory();
  EXPECT_EQ(live.devices, (std::vector{first, second, third}));
  ASSERT_EQ(live.pinned.size(), 2u);
  EXPECT_EQ(live.pinned[1], std::pair(1, third->pinned()));
  first->tensors()->Free(tensor);
  first->weights()->Free(weight);
  first->workspaces()->Free(scratch);
  EXPECT_EQ(first->Stats().weights.peak_bytes_in_use, 5120);
  EXPECT_EQ(first->Stats().weights.bytes_in_use, 0);
}

TEST_F(MemoryRegistry, EveryFieldOfTheConfigurationMatters) {
  std::vector<MemoryConfig> configs(13);
  configs[1].ordinal = 1;
  configs[2].limit_bytes = size_t{1} << 30;
  configs[3].arena.mode = ArenaMode::kNone;
  configs[4].arena.mode = ArenaMode::kPool;
  configs[5].arena.max_bytes = size_t{1} << 30;
  configs[6].arena.extend_strategy = ExtendStrategy::kSameAsRequested;
  configs[7].arena.initial_chunk_bytes *= 2;
  configs[8].arena.initial_growth_chunk_bytes *= 2;
  configs[9].arena.max_dead_bytes_per_chunk *= 2;
  configs[10].arena.max_power_of_two_extend_bytes *= 2;
  configs[11].arena.pool_release_threshold_bytes = 1;
  configs[12].arena.pool_bytes_to_keep_on_shrink = 1;
  std::vector<std::shared_ptr<DeviceMemory>> all;
  for (const MemoryConfig& config : configs) all.push_back(Acquire(config));
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(Acquire(configs[i]), all[i]) << i;
    EXPECT_EQ(std::count(all.begin(), all.end(), all[i]), 1) << i;
  }
}

TEST_F(MemoryRegistry, DebugSettingsAndCallbacksAreNeverShared) {
  MemoryConfig fails, strict, external;
  fails.fail_allocation = 1000;
  strict.require_stream_tags = true;
  external.external.alloc = reinterpret_cast<void*>(+[](size_t) -> void* { return nullptr; });
  external.external.free = reinterpret_cast<void*>(+[](void*) {});
  for (const MemoryConfig& config : {fails, strict, external}) {
    const auto first = Acquire(config), second = Acquire(config);
    EXPECT_NE(first, second);
  }
}

TEST_F(MemoryRegistry, PinnedMemoryIsOneArenaADevice) {
  const auto a = Acquire({}), b = Acquire(WithLimit(1 << 20));
  EXPECT_EQ(a->pinned(), b->pinned());
  EXPECT_EQ(AcquirePinnedMemory(0), a->pinned());
  EXPECT_NE(AcquirePinnedMemory(1), a->pinned());
}

TEST_F(MemoryRegistry, SixteenThreadsGetOneObject) {
  for (int round = 0; round < 20; ++round) {
    std::vector<std::shared_ptr<DeviceMemory>> found(16);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < found.size(); ++i) {
      threads.emplace_back([&, i] {
        found[i] = Acquire(WithLimit(size_t{1} << 30));
        void* pointer = MustAllocate(*found[i]->tensors(), 1000);
        found[i]->tensors()->Free(pointer);
      });
    }
    for (auto& thread : threads) thread.join();
    for (const auto& memory : found) EXPECT_EQ(memory, found[0]);
  }
}

TEST_F(MemoryRegistry, ThreadsMayAcquireAndDropAllTheTime) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 200; ++i) {
        const auto memory = Acquire(WithLimit(size_t{1} << (28 + (t + i) % 3)));
        const auto allocator = memory->tensors();
        allocator->Free(MustAllocate(*allocator, 512));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(device::sim::LiveAllocations(0), 0u);
}

TEST_F(MemoryRegistry, AnAllocatorOutlivesEverybodyElse) {
  auto memory = Acquire({});
  const std::weak_ptr<DeviceMemory> observer = memory;
  std::shared_ptr<Allocator> tensors = memory->tensors(), weights = memory->weights();
  void* tensor = MustAllocate(*tensors, 4096);
  void* weight = MustAllocate(*weights, 4096);
  memory.reset();
  EXPECT_FALSE(observer.expired());
  tensors->Free(tensor);
  tensors.reset();
  EXPECT_FALSE(observer.expired());
  weights->Free(weight);
  weights.reset();
  EXPECT_TRUE(observer.expired());
  EXPECT_EQ(device::sim::LiveAllocations(0), 0u);
}

TEST_F(MemoryRegistry, EverythingIsChargedToOneBudget) {
  const auto memory = Acquire(WithLimit(size_t{64} << 20));
  void* tensor = MustAllocate(*memory->tensors(), size_t{3} << 20);
  void* weight = MustAllocate(*memory->weights(), size_t{2} << 20);
  void* scratch = MustAllocate(*memory->workspaces(), size_t{1} << 20);
  const Budget& budget = memory->budget();
  EXPECT_GE(budget.charged_bytes(BudgetKind::kArena), size_t{3} << 20);
  EXPECT_EQ(budget.charged_bytes(BudgetKind::kWeights), size_t{2} << 20);
  EXPECT_EQ(budget.charged_bytes(BudgetKind::kWorkspace), size_t{1} << 20);
  EXPECT_EQ(budget.charged_bytes(), device::sim::BytesInUse(0));
  EXPECT_FALSE(memory->weights()->Reserve(size_t{60} << 20).ok());
  memory->tensors()->Free(tensor);
  memory->weights()->Free(weight);
  memory->workspaces()->Free(scratch);
}

TEST_F(MemoryRegistry, WhatTheLastSessionLeavesGoesBackToTheDriver) {
  const auto memory = Acquire({});
  memory->AddSession();
  memory->AddSession();
  const auto tensors = memory->tensors();
  tensors->Free(MustAllocate(*tensors, size_t{8} << 20));
  memory->RemoveSession();
  memory->RemoveSession();
  EXPECT_EQ(device::sim::BytesInUse(0), 0u);
}

TEST_F(MemoryRegistry, IdleTensorMemoryMakesRoomForWeightsUnderALimit) {
  const auto memory = Acquire(WithLimit(size_t{16} << 20));
  const auto tensors = memory->tensors();
  tensors->Free(MustAllocate(*tensors, size_t{12} << 20));
  Result<void*> weight = memory->weights()->Allocate(size_t{12} << 20);
  ASSERT_TRUE(weight.ok()) << weight.status().ToString();
  memory->weights()->Free(weight.value());
}

TEST_F(MemoryRegistry, IdleMemoryOfOneConfigurationMakesRoomForAnother) {
  device::sim::Configuration small;
  small.memory_bytes = size_t{64} << 20;
  small.quarantine_bytes = 0;
  ASSERT_TRUE(device::sim::Configure(small).ok());
  const auto first = Acquire(WithLimit(size_t{1} << 30)), second = Acquire(WithLimit(size_t{2} << 30));
  first->tensors()->Free(MustAllocate(*first->tensors(), size_t{40} << 20));
  void* pointer = MustAllocate(*second->tensors(), size_t{40} << 20);
  second->tensors()->Free(pointer);
}

TEST_F(MemoryRegistry, ARequestAboveTheLimitLeavesCachesAlone) {
  const auto memory = Acquire(WithLimit(size_t{16} << 20));
  const auto tensors = memory->tensors();
  tensors->Free(MustAllocate(*tensors, size_t{4} << 20));
  EXPECT_EQ(memory->weights()->Allocate(size_t{17} << 20).status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(tensors->Stats().shrinks, 0);
}

TEST_F(MemoryRegistry, AFailureIsInjectedOnceAcrossAllAllocators) {
  MemoryConfig config;
  config.fail_allocation = 3;
  const auto memory = Acquire(config);
  EXPECT_TRUE(memory->tensors()->Allocate(256).ok());
  EXPECT_TRUE(memory->weights()->Allocate(256).ok());
  const Status failed = memory->workspaces()->Allocate(256).status();
  EXPECT_EQ(failed.code(), StatusCode::kOutOfMemory);
  EXPECT_TRUE(failed.message().starts_with("[CUDAEP_OUT_OF_MEMORY]")) << failed.message();
  EXPECT_TRUE(memory->workspaces()->Allocate(256).ok());
}

TEST_F(MemoryRegistry, AStreamThatEndsIsForgottenByAllMemoryOfItsDevice) {
  const auto shared = Acquire({}), own = Acquire(WithLimit(size_t{1} << 30));
  device::Stream raw = nullptr;
  ASSERT_TRUE(device::StreamCreate(&raw).ok());
  for (const auto& memory : {shared, own}) {
    memory->AddStream(raw);
    memory->tensors()->Free(MustAllocate(*memory->tensors(), 4096, raw));
  }
  ASSERT_TRUE(device::StreamSynchronize(raw).ok());
  StreamEnded(0, raw);
  ASSERT_TRUE(device::StreamDestroy(raw).ok());
  device::UniqueStream other;
  ASSERT_TRUE(device::StreamCreate(other.Receive()).ok());
  for (const auto& memory : {shared, own}) {
    const int64_t before = memory->tensors()->Stats().driver_allocations;
    void* pointer = MustAllocate(*memory->tensors(), 4096, other.get());
    EXPECT_EQ(memory->tensors()->Stats().driver_allocations, before);
    memory->tensors()->Free(pointer);
  }
}

TEST_F(MemoryRegistry, ABorrowedStreamIsForgottenAfterItsLastSession) {
  const auto memory = Acquire({});
  device::UniqueStream user, other;
  ASSERT_TRUE(device::StreamCreate(user.Receive()).ok());
  ASSERT_TRUE(device::StreamCreate(other.Receive()).ok());
  BorrowStream(0, user.get());
  BorrowStream(0, user.get());
  memory->AddStream(user.get());
  memory->tensors()->Free(MustAllocate(*memory->tensors(), 4096, user.get()));
  ReturnStream(0, user.get());
  ReturnStream(0, user.get());
  ReturnStream(0, user.get());  // one too many is ignored
  user.Reset();
  void* pointer = MustAllocate(*memory->tensors(), 4096, other.get());
  EXPECT_EQ(memory->tensors()->Stats().driver_allocations, 1);
  memory->tensors()->Free(pointer);
}

// What a Run with an output in host memory costs does not depend on how many streams there are.
// Sessions with a memory of their own may have used an application's stream.
TEST_F(MemoryRegistry, AWaitForAStreamFreesItsMemoryInEveryConfiguration) {
  device::UniqueStream used, other;
  ASSERT_TRUE(device::StreamCreate(used.Receive()).ok());
  ASSERT_TRUE(device::StreamCreate(other.Receive()).ok());
  const auto first = Acquire({}), second = Acquire(WithLimit(size_t{64} << 20));
  for (const auto& memory : {first, second}) {
    Allocator& tensors = *memory->tensors();
    void* const block = MustAllocate(tensors, size_t{40} << 20, used.get());
    ASSERT_TRUE(device::MemsetAsync(block, 1, 1000, used.get()).ok());
    tensors.Free(block);
  }
  StreamWait wait(0, used.get());
  ASSERT_TRUE(device::StreamSynchronize(used.get()).ok());
  wait.Reached();
  for (const auto& memory : {first, second}) {
    Allocator& tensors = *memory->tensors();
    const AllocatorStats before = tensors.Stats();
    tensors.Free(MustAllocate(tensors, size_t{40} << 20, other.get()));
    EXPECT_EQ(tensors.Stats().stream_waits, before.stream_waits);
    EXPECT_EQ(tensors.Stats().bytes_reserved, before.bytes_reserved);
  }
}

TEST_F(MemoryRegistry, AHostOutputRecordsAtMostTwoEventsAmong64Streams) {
  const auto memory = Acquire({});
  std::vector<device::UniqueStream> streams(64);
  for (device::UniqueStream& stream : streams) {
    ASSERT_TRUE(device::StreamCreate(stream.Receive()).ok());
    memory->AddStream(stream.get());
  }
  void* const source = MustAllocate(*memory->tensors(), 4096, streams[0].get());
  const auto run = [&](device::Stream own, bool copies, bool frees_before_the_wait) {
    const device::sim::Counters before = device::sim::Snapshot();
    Result<void*> output = memory->pinned()->AllocateOnStream(4096, own);
    ASSERT_TRUE(output.ok());
    if (copies) {
      ASSERT_TRUE(device::MemcpyAsync(output.value(), source, 4096, own).ok());
      memory->pinned()->UsedOn(output.value(), own);
    }
    if (frees_before_the_wait) memory->pinned()->Free(output.value());
    const DeviceMemory::Moment moment = memory->Mark(own);
    ASSERT_TRUE(device::StreamSynchronize(own).ok());
    memory->Reached(moment);
    if (!frees_before_the_wait) memory->pinned()->Free(output.value());
    const device::sim::Counters spent = device::sim::Snapshot() - before;
    EXPECT_LE(spent.event_records, copies && frees_before_the_wait ? 2u : 0u);
    EXPECT_LE(spent.queries, copies && frees_before_the_wait ? 4u : 0u);
  };
  for (int round = 0; round < 8; ++round) {
    for (const bool copies : {true, false}) {
      for (const bool early : {true, false}) run(streams[0].get(), copies, early);
    }
  }
  EXPECT_EQ(memory->pinned()->Stats().driver_allocations, 1);
  memory->tensors()->Free(source);
  for (device::UniqueStream& stream : streams) StreamEnded(0, stream.get());
}

// The last reference to a caller's memory may be dropped by whoever looks for another device's: the callbacks that this
// makes may call anything, and take locks of the caller's.
TEST_F(MemoryRegistry, CallbacksOfACallerAreMadeWithoutTheLock) {
  static std::atomic<int> freed;
  freed = 0;
  MemoryConfig config;
  config.external.alloc = reinterpret_cast<void*>(+[](size_t bytes) -> void* {
    void* pointer = nullptr;
    device::Malloc(&pointer, bytes).IgnoreError();
    return pointer;
  });
  config.external.free = reinterpret_cast<void*>(+[](void* pointer) {
    IsMemoryHeld();  // takes the registry's lock
    device::Free(pointer).IgnoreError();
    ++freed;
  });
  std::atomic<bool> done{false};
  std::vector<std::thread> lookers;
  for (int i = 0; i < 2; ++i) {
    lookers.emplace_back([&] {
      while (!done) ReclaimIdleMemory(1);
    });
  }
  constexpr int kRounds = 300;
  for (int round = 0; round < kRounds; ++round) {
    auto memory = Acquire(config);
    MustAllocate(*memory->tensors(), 256);  // not freed: it goes back when the memory ends
    memory.reset();
  }
  done = true;
  for (std::thread& looker : lookers) looker.join();
  EXPECT_EQ(freed, kRounds);
}

}  // namespace
}  // namespace cudaep::memory
