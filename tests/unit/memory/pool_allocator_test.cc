// What is the pool allocator's own, apart from the order of streams (pool_order_test.cc) and the allocator contract
// (contract_suite.h): what it keeps, its limits, its account.
#include <thread>

#include "memory/allocation_label.h"
#include "pool_fixture.h"

namespace cudaep::memory {
namespace {

using testing::kStep;
namespace sim = device::sim;

class PoolAllocatorTest : public testing::PoolFixture {};

TEST_F(PoolAllocatorTest, ASteadyRunTakesNothingNew) {
  pool_ = Make(Keeping());
  sim::ResetCounters();
  for (int run = 0; run < 20; ++run) {
    void* a = On(*pool_, kStep / 4, stream());
    void* b = On(*pool_, kStep / 4, stream());
    ASSERT_OK(device::MemsetAsync(a, 1, kStep / 4, stream()));
    pool_->Free(a);
    void* c = On(*pool_, kStep / 4, stream());
    ASSERT_OK(device::MemsetAsync(c, 1, kStep / 4, stream()));
    pool_->Free(b);
    pool_->Free(c);
    ASSERT_OK(device::StreamSynchronize(stream()));
    pool_->Reached(pool_->Mark(stream()));
  }
  EXPECT_EQ(sim::Snapshot().pool_growths, 1u);
  EXPECT_EQ(sim::Snapshot().pool_releases, 0u);
  EXPECT_EQ(sim::Snapshot().device_allocations, 0u);
  EXPECT_EQ(pool_->Stats().driver_allocations, 1);
  EXPECT_EQ(pool_->Stats().bytes_reserved, static_cast<int64_t>(kStep));
  EXPECT_EQ(pool_->Stats().bytes_in_use, 0);
}

TEST_F(PoolAllocatorTest, TwoPoolsShareNothing) {
  auto budget = std::make_shared<Budget>();
  pool_ = Make(Keeping(), budget);
  auto other = Make(Keeping());
  pool_->Free(On(*pool_, kStep, stream()));
  void* theirs = On(*other, kStep, stream());
  EXPECT_EQ(sim::BytesInUse(0), 2 * kStep);
  ASSERT_OK(device::StreamSynchronize(stream()));
  ASSERT_OK(pool_->Shrink());
  EXPECT_EQ(sim::BytesInUse(0), kStep);
  ASSERT_OK(device::MemsetAsync(theirs, 0, kStep, stream()));
  EXPECT_EQ(budget->charged_bytes(), 0u);
  pool_->Free(theirs);  // not ours: ignored
  EXPECT_EQ(other->Stats().bytes_in_use, static_cast<int64_t>(kStep));
}

TEST_F(PoolAllocatorTest, TheThresholdDecidesWhatASynchronisationLeaves) {
  for (size_t kept : {size_t{0}, kStep, 3 * kStep}) {
    auto budget = std::make_shared<Budget>();
    pool_ = Make(Keeping(kept), budget);
    pool_->Free(On(*pool_, 8 * kStep, stream()));
    EXPECT_EQ(pool_->Stats().bytes_reserved, static_cast<int64_t>(8 * kStep));
    EXPECT_EQ(budget->charged_bytes(BudgetKind::kArena), 8 * kStep);
    ASSERT_OK(device::StreamSynchronize(stream()));
    EXPECT_EQ(budget->charged_bytes(), 8 * kStep);  // nobody has asked the driver since
    pool_->Reached(pool_->Mark(stream()));
    EXPECT_EQ(budget->charged_bytes(), kept);
    EXPECT_EQ(pool_->Stats().bytes_reserved, static_cast<int64_t>(kept));
    EXPECT_EQ(pool_->Stats().driver_frees, 1);
    EXPECT_EQ(sim::BytesInUse(0), kept);
    pool_.reset();
    EXPECT_EQ(sim::BytesInUse(0), 0u);
    EXPECT_EQ(budget->charged_bytes(), 0u);
  }
}

TEST_F(PoolAllocatorTest, ShrinkWaitsForFreesAndKeepsAsConfigured) {
  ArenaConfig config = Keeping();
  config.pool_bytes_to_keep_on_shrink = 2 * kStep;
  pool_ = Make(config);
  void* pointer = On(*pool_, 8 * kStep, stream());
  ASSERT_OK(device::MemsetAsync(pointer, 0, 8 * kStep, stream()));
  pool_->Free(pointer);
  ASSERT_OK(pool_->Shrink());
  EXPECT_EQ(pool_->Stats().bytes_reserved, static_cast<int64_t>(2 * kStep));
  EXPECT_EQ(pool_->Stats().shrinks, 1);
  EXPECT_EQ(pool_->Stats().peak_bytes_reserved, static_cast<int64_t>(8 * kStep));
}

TEST_F(PoolAllocatorTest, ShrinkDoesNotWaitForOtherStreams) {
  pool_ = Make(Keeping());
  pool_->AddStream(stream(1));
  pool_->Free(On(*pool_, kStep, stream(0)));
  void* busy = On(*pool_, 256, stream(1));
  ASSERT_OK(device::MemsetAsync(busy, 0, 256, stream(1)));
  ASSERT_OK(pool_->Shrink());
  EXPECT_EQ(device::StreamQuery(stream(1)).code(), StatusCode::kNotReady);  // nobody waited for it
  EXPECT_EQ(pool_->Stats().bytes_reserved, static_cast<int64_t>(kStep));
}

TEST_F(PoolAllocatorTest, TheBudgetRefusesGrowthAndStaysTrue) {
  auto budget = std::make_shared<Budget>(4 * kStep);
  pool_ = Make(Keeping(), budget);
  void* a = On(*pool_, 3 * kStep, stream());
  ASSERT_TRUE(budget->TryCharge(BudgetKind::kWeights, kStep / 2));
  const auto before = sim::Snapshot();
  EXPECT_FAILS(pool_->AllocateOnStream(kStep, stream()).status(), kOutOfMemory, "[CUDAEP_OUT_OF_MEMORY]");
  EXPECT_EQ((sim::Snapshot() - before).pool_growths, 0u);  // certain to grow: refused before the driver is asked
  // It would fit, but the pool grows in steps: undone.
  EXPECT_FAILS(pool_->AllocateOnStream(kStep / 4, stream()).status(), kOutOfMemory, "grows in steps");
  EXPECT_EQ(budget->charged_bytes(BudgetKind::kArena), 3 * kStep);
  EXPECT_EQ(sim::BytesInUse(0), 3 * kStep);
  EXPECT_EQ(pool_->Stats().failures, 2);
  budget->Release(BudgetKind::kWeights, kStep / 2);
  void* b = On(*pool_, kStep / 4, stream());
  EXPECT_EQ(budget->charged_bytes(), 4 * kStep);
  pool_->Free(a);
  pool_->Free(b);
  On(*pool_, 4 * kStep, stream());
  EXPECT_EQ(budget->charged_bytes(), 4 * kStep);
}

TEST_F(PoolAllocatorTest, ALimitIsMetByWaitingForWhatWasFreed) {
  auto budget = std::make_shared<Budget>(4 * kStep);
  pool_ = Make(Keeping(), budget);
  void* a = On(*pool_, 3 * kStep, stream(0));
  ASSERT_OK(device::MemsetAsync(a, 0, 3 * kStep, stream(0)));
  pool_->Free(a);
  void* b = On(*pool_, 3 * kStep, stream(1));  // stream 0 may still use the pool's memory
  ASSERT_OK(device::MemsetAsync(b, 0, 3 * kStep, stream(1)));
  EXPECT_EQ(budget->charged_bytes(), 3 * kStep);
}

TEST_F(PoolAllocatorTest, MaxBytesCountsReservedMemoryToo) {
  ArenaConfig config = Keeping();
  config.max_bytes = 2 * kStep;
  pool_ = Make(config);
  Result<void*> weights = pool_->Reserve(kStep);
  ASSERT_OK(weights.status());
  EXPECT_EQ(sim::Snapshot().device_allocations, 1u);
  EXPECT_FAILS(pool_->AllocateOnStream(kStep + 256, stream()).status(), kOutOfMemory, "limit");
  On(*pool_, kStep, stream());
  EXPECT_FAILS(pool_->Reserve(256).status(), kOutOfMemory, "limit");
  EXPECT_EQ(pool_->Stats().bytes_reserved, static_cast<int64_t>(2 * kStep));
  EXPECT_EQ(pool_->Stats().limit_bytes, static_cast<int64_t>(2 * kStep));
  EXPECT_EQ(pool_->Stats().reserves, 1);
  pool_->Free(weights.value());
  EXPECT_EQ(sim::Snapshot().device_frees, 1u);
  EXPECT_EQ(pool_->Stats().bytes_reserved, static_cast<int64_t>(kStep));
}

TEST_F(PoolAllocatorTest, FailedDriverCallsLoseNothing) {
  const Status planned(StatusCode::kDeviceError, "planned");
  pool_ = Make(Keeping());
  void* pointer = On(*pool_, 4096, stream());
  sim::FailCall(sim::CallKind::kFree, 1, planned);
  pool_->Free(pointer);
  EXPECT_EQ(pool_->Stats().bytes_in_use, 0);
  sim::FailCall(sim::CallKind::kMallocAsync, 1, planned);
  EXPECT_FAILS(pool_->AllocateOnStream(9000, stream()).status(), kDeviceError, "planned");
  EXPECT_EQ(On(*pool_, 4096, stream()), pointer);  // still ours, so its stream may have it again
  pool_->Free(pointer);
  ASSERT_OK(pool_->Shrink());
  EXPECT_EQ(sim::BytesInUse(0), 0u);
  sim::FailCall(sim::CallKind::kPool, 1, planned);
  EXPECT_FAILS(PoolAllocator::Create(0, Keeping(), nullptr).status(), kDeviceError, "planned");
  sim::FailCall(sim::CallKind::kStreamCreate, 1, planned);
  EXPECT_FAILS(PoolAllocator::Create(0, Keeping(), nullptr).status(), kDeviceError, "planned");
  EXPECT_FALSE(PoolAllocator::Create(5, Keeping(), nullptr).ok());
}

TEST_F(PoolAllocatorTest, NothingIsLeftAtDestruction) {
  auto budget = std::make_shared<Budget>();
  for (auto mode : {sim::Mode::kLate, sim::Mode::kRandom, sim::Mode::kEager}) {
    Start(With(mode));
    pool_ = Make(Keeping(), budget);
    pool_->AddStream(stream(1));
    void* live = On(*pool_, 4096, stream());
    ASSERT_OK(device::MemsetAsync(live, 1, 4096, stream()));
    void* held = Untagged(*pool_, 4096);
    ASSERT_OK(device::MemsetAsync(held, 1, 4096, stream(1)));
    pool_->Free(held);
    EXPECT_OK(pool_->Reserve(4096).status());
    EXPECT_GT(sim::BytesInUse(0), 0u);
    pool_.reset();
    EXPECT_EQ(sim::BytesInUse(0), 0u);
    EXPECT_EQ(sim::LiveAllocations(0), 0u);
    EXPECT_EQ(budget->charged_bytes(BudgetKind::kArena), 0u);
  }
}

TEST_F(PoolAllocatorTest, ManyThreadsKeepTheAccountTrue) {
  for (auto mode : {sim::Mode::kLate, sim::Mode::kEager}) {
    Start(With(mode));
    auto budget = std::make_shared<Budget>(64 * kStep);
    pool_ = Make(Keeping(), budget);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([this, t] {
        device::UniqueStream own;
        EXPECT_OK(device::StreamCreate(own.Receive()));
        for (int i = 0; i < 40; ++i) {
          void* a = On(*pool_, 1000 + static_cast<size_t>(i) * 777, own.get());
          void* b = Untagged(*pool_, 3000);
          EXPECT_OK(device::MemsetAsync(a, t, 1000, own.get()));
          EXPECT_OK(device::MemsetAsync(b, t, 3000, own.get()));
          pool_->Free(a);
          pool_->Free(b);
          if (i % 8 == 0) EXPECT_OK(pool_->Shrink());
          const AllocatorStats stats = pool_->Stats();
          EXPECT_LE(stats.bytes_in_use, stats.peak_bytes_in_use);
          EXPECT_LE(stats.bytes_in_use, stats.bytes_reserved);
        }
        EXPECT_OK(device::StreamSynchronize(own.get()));
        pool_->ReleaseStream(own.get());
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(pool_->Stats().bytes_in_use, 0);
    EXPECT_EQ(pool_->Stats().allocations, 2 * 4 * 40);
    EXPECT_EQ(static_cast<int64_t>(budget->charged_bytes()), pool_->Stats().bytes_reserved);
    ASSERT_OK(pool_->Shrink());
    EXPECT_EQ(budget->charged_bytes(), 0u);
    EXPECT_EQ(sim::BytesInUse(0), 0u);
    pool_.reset();
  }
}

TEST_F(PoolAllocatorTest, UsersAreNamed) {
  pool_ = Make(Keeping());
  const LabelScope scope(InternLabel("node Conv_1"));
  On(*pool_, 1000, stream());
  On(*pool_, 1000, stream());
  const std::vector<MemoryUser> users = pool_->LargestUsers(8);
  ASSERT_EQ(users.size(), 1u);
  EXPECT_STREQ(users[0].label, "node Conv_1");
  EXPECT_EQ(users[0].bytes, 2048u);
  EXPECT_EQ(users[0].chunks, 2u);
}

}  // namespace
}  // namespace cudaep::memory
