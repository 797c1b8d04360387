// RuledAllocator and RecordingAllocator, over the caller's memory.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "caller_memory.h"
#include "memory/adaptors/recording_allocator.h"
#include "memory/adaptors/ruled_allocator.h"
#include "memory/allocation_label.h"
#include "memory/arena/arena.h"

namespace cudaep::memory {
namespace {

using testing::CallerMemory;

class AdaptorTest : public device::testing::DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    CallerMemory::Reset(nullptr);
    auto made = ExternalAllocator::Create(0, CallerMemory::Callbacks(), nullptr);
    ASSERT_OK(made.status());
    inner_ = std::move(made).value();
  }
  void TearDown() override {
    inner_.reset();
    EXPECT_EQ(CallerMemory::outstanding(), 0u);
    CallerMemory::Reset(nullptr);
    DeviceTest::TearDown();
  }
  // The outcome of six requests of all kinds, as ones and zeros.
  std::string Outcomes(Allocator& allocator) {
    std::string text;
    for (int i = 0; i < 2; ++i) {
      for (int kind = 0; kind < 3; ++kind) {
        Result<void*> pointer = kind == 0   ? allocator.Allocate(64)
                                : kind == 1 ? allocator.AllocateOnStream(64, stream())
                                            : allocator.Reserve(64);
        text += pointer.ok() ? '1' : '0';
        if (pointer.ok()) allocator.Free(pointer.value());
      }
    }
    return text;
  }

  // Over `inner_`; the request of this number fails.
  std::shared_ptr<RuledAllocator> Failing(uint64_t request) {
    faults_ = std::make_shared<FaultCounter>(request);
    return std::make_shared<RuledAllocator>(inner_, RequestRules{.faults = faults_});
  }

  std::shared_ptr<Allocator> inner_;
  std::shared_ptr<FaultCounter> faults_;
};

TEST_F(AdaptorTest, FaultsHitTheRequestTheyAreMeantFor) {
  const struct {
    uint64_t request;
    const char* outcomes;
  } cases[] = {{0, "111111"}, {1, "011111"}, {2, "101111"}, {6, "111110"}, {7, "111111"}};
  for (const auto& expected : cases) {
    const auto failing = Failing(expected.request);
    const auto failures = static_cast<int64_t>(std::count(expected.outcomes, expected.outcomes + 6, '0'));
    const int64_t before = inner_->Stats().allocations + inner_->Stats().reserves;
    EXPECT_EQ(Outcomes(*failing), expected.outcomes) << "request " << expected.request;
    EXPECT_EQ(faults_->requests, 6u);
    EXPECT_EQ(failing->Stats().failures, failures);
    EXPECT_EQ(failing->Stats().allocations + failing->Stats().reserves - before, 6 - failures);
  }
}

TEST_F(AdaptorTest, AFaultSaysThatItIsOne) {
  const auto failing = Failing(1);
  ASSERT_OK(failing->Allocate(0).status());  // no request
  EXPECT_FAILS(failing->AllocateOnStream(4096, stream()).status(), kOutOfMemory,
               "[CUDAEP_OUT_OF_MEMORY] request 1 of 4096 bytes fails because it was told to");
}

TEST_F(AdaptorTest, AllocatorsOfOneCounterCountTogether) {
  const auto first = Failing(2);
  RuledAllocator second(inner_, {.faults = faults_});
  EXPECT_OK(first->Reserve(64).status());
  EXPECT_FAILS(second.Reserve(64).status(), kOutOfMemory, "request 2 of 64 bytes");
  EXPECT_OK(first->Reserve(64).status());
  EXPECT_EQ(faults_->requests, 3u);
  EXPECT_EQ(first->Stats().failures, 0);
  EXPECT_EQ(second.Stats().failures, 1);
}

TEST_F(AdaptorTest, ExactlyOneOfManyThreadsMeetsTheFault) {
  const auto failing = Failing(77);
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        Result<void*> pointer = failing->Allocate(64);
        if (pointer.ok()) {
          failing->Free(pointer.value());
        } else {
          ++failed;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(faults_->requests, 200u);
}

TEST_F(AdaptorTest, MemoryWithoutAStreamIsRefusedAndTheCallerNamed) {
  RuledAllocator strict(inner_, {.requires_stream = true});
  EXPECT_FAILS(strict.Allocate(64).status(), kFailedPrecondition, "a caller outside of any node asked for 64 bytes");
  {
    const LabelScope scope(InternLabel("node Resize_7"));
    EXPECT_FAILS(strict.Allocate(4096).status(), kFailedPrecondition,
                 "node Resize_7 asked for 4096 bytes without naming a stream");
  }
  EXPECT_OK(strict.Allocate(0).status());
  EXPECT_EQ(strict.Stats().failures, 2);
  EXPECT_EQ(CallerMemory::allocs(), 0u);
  EXPECT_EQ(Outcomes(strict), "011011");
}

TEST_F(AdaptorTest, TheRestPassesThrough) {
  RuledAllocator strict(Failing(0), {.requires_stream = true});
  const LabelScope scope(InternLabel("node A"));
  strict.AddStream(stream());
  Result<void*> pointer = strict.AllocateOnStream(4096, stream());
  ASSERT_OK(pointer.status());
  ASSERT_OK(device::MemsetAsync(pointer.value(), 1, 4096, stream()));
  ASSERT_EQ(strict.LargestUsers(4).size(), 1u);
  EXPECT_STREQ(strict.LargestUsers(4)[0].label, "node A");
  strict.Free(pointer.value());
  EXPECT_EQ(CallerMemory::frees(), 0u);
  ASSERT_OK(device::StreamSynchronize(stream()));
  strict.Reached(strict.Mark(stream()));
  EXPECT_EQ(CallerMemory::frees(), 1u);
  strict.ReleaseStream(stream());
  ASSERT_OK(strict.Shrink());
  EXPECT_EQ(CallerMemory::empties(), 1u);
  EXPECT_EQ(inner_->Stats().shrinks, 1);
  EXPECT_EQ(faults_->requests, 1u);
}

// What the contract says of page-locked memory holds through an adaptor, too.
TEST_F(AdaptorTest, CopiesOfPageLockedMemoryAreToldThroughIt) {
  RuledAllocator pinned(std::make_shared<Arena>(MemorySource{MemoryKind::kPinnedHost, 0}, ArenaConfig{}), {});
  auto* const target = Allocate<uint8_t>(4096);
  auto* const first = static_cast<uint8_t*>(pinned.Allocate(4096).value());
  std::fill_n(first, 4096, uint8_t{1});
  ASSERT_OK(device::MemcpyAsync(target, first, 4096, stream()));
  ASSERT_TRUE(pinned.Owns(first));
  pinned.UsedOn(first, stream());
  pinned.Free(first);
  auto* const second = static_cast<uint8_t*>(pinned.Allocate(4096).value());
  EXPECT_NE(second, first);
  ASSERT_OK(device::StreamSynchronize(stream()));
  pinned.Free(second);
}

TEST_F(AdaptorTest, ARecordHasEveryRequestThatWasServed) {
  const std::string path = ::testing::TempDir() + "cudaep_record.txt";
  {
    auto made = RecordingAllocator::Create(inner_, path);
    ASSERT_OK(made.status());
    Allocator& recording = *made.value();
    Result<void*> first = recording.AllocateOnStream(1000, stream(1));
    Result<void*> second = recording.Allocate(64);
    ASSERT_OK(first.status());
    ASSERT_OK(second.status());
    recording.Free(*first);
    Result<void*> third = recording.AllocateOnStream(5, stream(0));
    ASSERT_OK(third.status());
    EXPECT_FALSE(recording.AllocateOnStream(SIZE_MAX, stream(0)).ok());
    EXPECT_EQ(recording.AllocateOnStream(0, stream(0)).value(), nullptr);
    recording.Free(nullptr);
    recording.Reached(recording.Mark(stream(1)));
    recording.Free(*third);
    recording.Free(*second);
  }
  std::ifstream file(path);
  std::string comment;
  std::getline(file, comment);
  EXPECT_EQ(comment[0], '#');
  std::stringstream rest;
  rest << file.rdbuf();
  EXPECT_EQ(rest.str(), "a 0 1000 0\na 1 64 -\nf 0\na 0 5 1\ni 0\nf 0\nf 1\n");
  std::filesystem::remove(path);
  EXPECT_FAILS(RecordingAllocator::Create(inner_, "/nowhere/at/all").status(), kInvalidArgument, "/nowhere/at/all");
}

}  // namespace
}  // namespace cudaep::memory
