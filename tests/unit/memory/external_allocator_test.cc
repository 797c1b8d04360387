// What is the external allocator's own, apart from the order of streams (external_order_test.cc) and the allocator
// contract (contract_suite.h): the callbacks, their failures, the account.
#include <thread>

#include "external_fixture.h"
#include "memory/allocation_label.h"

namespace cudaep::memory {
namespace {

using testing::CallerMemory;
namespace sim = device::sim;

class ExternalAllocatorTest : public testing::ExternalFixture {};

TEST_F(ExternalAllocatorTest, EachBlockIsOneCallEachWay) {
  std::vector<void*> live;
  for (size_t i = 1; i <= 5; ++i) live.push_back(On(i * 1000, stream()));
  Result<void*> weights = external_->Reserve(100);
  ASSERT_OK(weights.status());
  live.push_back(weights.value());
  live.push_back(Untagged(100));
  EXPECT_EQ(CallerMemory::allocs(), 7u);
  EXPECT_EQ(external_->Stats().driver_allocations, 7);
  for (void* pointer : live) external_->Free(pointer);
  ASSERT_OK(external_->Shrink());
  EXPECT_EQ(CallerMemory::frees(), 7u);
  EXPECT_EQ(CallerMemory::empties(), 1u);
  EXPECT_EQ(external_->Stats().driver_frees, 7);
  EXPECT_EQ(external_->Stats().bytes_reserved, 0);
  EXPECT_EQ(external_->Stats().bytes_in_use, 0);
}

TEST_F(ExternalAllocatorTest, MuchLargerBlocksAreNotReused) {
  void* large = On(80000, stream());
  ASSERT_OK(Use(large, 80000, stream()));
  external_->Free(large);
  EXPECT_NE(On(4096, stream()), large);
  EXPECT_EQ(On(75000, stream()), large);
}

TEST_F(ExternalAllocatorTest, NullAndExceptionsAreErrorsAndTheNextRequestWorks) {
  CallerMemory::FailNext(CallerMemory::Failure::kNull, 1);
  EXPECT_FAILS(external_->AllocateOnStream(64, stream()).status(), kOutOfMemory, "it returned null");
  CallerMemory::FailNext(CallerMemory::Failure::kThrow, 1);
  EXPECT_FAILS(external_->Allocate(64).status(), kOutOfMemory, "it threw: caller is out of memory");
  CallerMemory::FailNext(CallerMemory::Failure::kThrowInt, 1);
  EXPECT_FAILS(external_->Reserve(64).status(), kOutOfMemory, "it threw an unknown exception");
  EXPECT_FAILS(external_->Allocate(SIZE_MAX).status(), kOutOfMemory, "no memory can be as large");
  EXPECT_EQ(external_->Stats().failures, 4);
  EXPECT_EQ(external_->Stats().bytes_reserved, 0);
  On(64, stream());
}

TEST_F(ExternalAllocatorTest, HeldBlocksAreGivenBackBeforeARequestFails) {
  void* held = On(4096, stream());
  ASSERT_OK(Use(held, 4096, stream()));
  external_->Free(held);
  CallerMemory::FailNext(CallerMemory::Failure::kNull, 1);
  On(100000, stream());
  EXPECT_EQ(CallerMemory::frees(), 1u);
  EXPECT_EQ(external_->Stats().failures, 0);
}

TEST_F(ExternalAllocatorTest, ThrowingFreesAndEmptyCachesDoNotPass) {
  void* pointer = On(64, stream(2));
  CallerMemory::FailNext(CallerMemory::Failure::kThrowFromFree, 1);
  external_->Free(pointer);
  EXPECT_EQ(external_->Stats().bytes_reserved, 0);
  CallerMemory::FailNext(CallerMemory::Failure::kThrowFromEmpty, 1);
  EXPECT_OK(external_->Shrink());
}

TEST_F(ExternalAllocatorTest, WrongMemoryIsRefusedAndGivenBack) {
  CallerMemory::FailNext(CallerMemory::Failure::kMisaligned, 1);
  EXPECT_FAILS(external_->Allocate(64).status(), kInvalidArgument, "not aligned to 256 bytes");
  CallerMemory::FailNext(CallerMemory::Failure::kHostMemory, 1);
  EXPECT_FAILS(external_->Allocate(64).status(), kInvalidArgument, "not memory of CUDA device 0");
  EXPECT_EQ(CallerMemory::frees(), 2u);
  EXPECT_EQ(external_->Stats().bytes_reserved, 0);
}

TEST_F(ExternalAllocatorTest, TheBudgetIsChargedForWhatTheCallerGave) {
  auto budget = std::make_shared<Budget>(10000);
  external_ = Make(budget);
  void* first = On(4096, stream());
  ASSERT_OK(Use(first, 4096, stream()));
  external_->Free(first);
  EXPECT_EQ(budget->charged_bytes(BudgetKind::kArena), 4096u);  // held, not back yet
  void* second = On(9000, stream(1));                           // fits once the held block is back
  EXPECT_EQ(budget->charged_bytes(), 9216u);
  const size_t allocs = CallerMemory::allocs();
  EXPECT_FAILS(external_->AllocateOnStream(4096, stream()).status(), kOutOfMemory, "[CUDAEP_OUT_OF_MEMORY]");
  EXPECT_EQ(CallerMemory::allocs(), allocs);
  EXPECT_EQ(external_->Stats().limit_bytes, 10000);
  external_->Free(second);
  external_.reset();
  EXPECT_EQ(budget->charged_bytes(), 0u);
}

TEST_F(ExternalAllocatorTest, FailedDriverCallsLoseNothing) {
  const Status planned(StatusCode::kDeviceError, "planned");
  for (const sim::CallKind kind :
       {sim::CallKind::kEventCreate, sim::CallKind::kEventRecord, sim::CallKind::kEventWait}) {
    sim::FailCall(kind, 1, planned);
    EXPECT_FAILS(external_->AllocateOnStream(64, stream()).status(), kDeviceError, "planned");
    EXPECT_EQ(CallerMemory::outstanding(), 0u);
    sim::ClearFaults();
    void* pointer = On(64, stream());
    ASSERT_OK(Use(pointer, 64, stream()));
    sim::FailCall(kind, 1, planned);
    external_->Free(pointer);
    sim::ClearFaults();
    ASSERT_OK(external_->Shrink());
    EXPECT_EQ(CallerMemory::outstanding(), 0u);
  }
}

TEST_F(ExternalAllocatorTest, EverythingGoesBackAtDestruction) {
  external_->AddStream(stream(1));
  void* held = On(4096, stream());
  ASSERT_OK(Use(held, 4096, stream()));
  external_->Free(held);
  void* live = Untagged(4096);
  ASSERT_OK(Use(live, 4096, stream(1)));
  EXPECT_OK(external_->Reserve(64).status());
  external_.reset();
  EXPECT_EQ(CallerMemory::allocs(), 3u);
  EXPECT_EQ(CallerMemory::frees(), 3u);
}

TEST_F(ExternalAllocatorTest, BothFunctionsAreNeeded) {
  ExternalCallbacks callbacks = CallerMemory::Callbacks();
  callbacks.free = nullptr;
  EXPECT_FAILS(ExternalAllocator::Create(0, callbacks, nullptr).status(), kInvalidArgument, "free is missing");
  callbacks.alloc = nullptr;
  EXPECT_FAILS(ExternalAllocator::Create(0, callbacks, nullptr).status(), kInvalidArgument, "alloc is missing");
  callbacks = CallerMemory::Callbacks();
  callbacks.empty_cache = nullptr;
  auto made = ExternalAllocator::Create(0, callbacks, nullptr);
  ASSERT_OK(made.status());
  EXPECT_OK(made.value()->Shrink());
}

// A callback may come back to this allocator through another thread that waits for it.
TEST_F(ExternalAllocatorTest, NoLockIsHeldDuringCallbacks) {
  void* other = On(4096, stream(1));
  CallerMemory::OnAlloc([this, other] {
    CallerMemory::OnAlloc(nullptr);
    std::thread([this, other] { external_->Free(other); }).join();
  });
  On(4096, stream());
  EXPECT_EQ(external_->Stats().bytes_in_use, 4096);
}

TEST_F(ExternalAllocatorTest, ManyThreadsKeepTheAccountTrue) {
  for (auto mode : {sim::Mode::kLate, sim::Mode::kEager}) {
    external_.reset();
    Start(With(mode));
    CallerMemory::Reset(stream(2));
    auto budget = std::make_shared<Budget>();
    external_ = Make(budget);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([this, t] {
        device::UniqueStream own;
        EXPECT_OK(device::StreamCreate(own.Receive()));
        for (int i = 0; i < 40; ++i) {
          void* a = On(1000 + static_cast<size_t>(i % 4) * 777, own.get());
          void* b = Untagged(3000);
          EXPECT_OK(device::MemsetAsync(a, t, 1000, own.get()));
          EXPECT_OK(device::MemsetAsync(b, t, 3000, own.get()));
          external_->Free(a);
          external_->Free(b);
          if (i % 8 == 0) EXPECT_OK(external_->Shrink());
          const AllocatorStats stats = external_->Stats();
          EXPECT_LE(stats.bytes_in_use, stats.bytes_reserved);
        }
        EXPECT_OK(device::StreamSynchronize(own.get()));
        external_->ReleaseStream(own.get());
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(external_->Stats().bytes_in_use, 0);
    EXPECT_EQ(external_->Stats().allocations, 2 * 4 * 40);
    ASSERT_OK(external_->Shrink());
    EXPECT_EQ(external_->Stats().bytes_reserved, 0);
    EXPECT_EQ(budget->charged_bytes(), 0u);
  }
}

TEST_F(ExternalAllocatorTest, UsersAreNamed) {
  const LabelScope scope(InternLabel("node Conv_1"));
  On(1000, stream());
  const std::vector<MemoryUser> users = external_->LargestUsers(8);
  ASSERT_EQ(users.size(), 1u);
  EXPECT_STREQ(users[0].label, "node Conv_1");
}

}  // namespace
}  // namespace cudaep::memory
