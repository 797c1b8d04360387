// FaultAllocator, StrictAllocator and RecordingAllocator, over the caller's memory.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "caller_memory.h"
#include "memory/adaptors/fault_allocator.h"
#include "memory/adaptors/recording_allocator.h"
#include "memory/adaptors/strict_allocator.h"
#include "memory/allocation_label.h"

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

  std::shared_ptr<Allocator> inner_;
};

TEST_F(AdaptorTest, FaultsHitTheRequestTheyAreMeantFor) {
  const struct {
    uint64_t request;
    FaultAllocator::Extent extent;
    const char* outcomes;
  } cases[] = {
      {0, FaultAllocator::Extent::kOnce, "111111"},       {1, FaultAllocator::Extent::kOnce, "011111"},
      {2, FaultAllocator::Extent::kOnce, "101111"},       {6, FaultAllocator::Extent::kOnce, "111110"},
      {7, FaultAllocator::Extent::kOnce, "111111"},       {0, FaultAllocator::Extent::kFromThenOn, "111111"},
      {1, FaultAllocator::Extent::kFromThenOn, "000000"}, {3, FaultAllocator::Extent::kFromThenOn, "110000"},
  };
  for (const auto& expected : cases) {
    FaultAllocator faults(inner_, expected.request, expected.extent);
    const auto failures = static_cast<int64_t>(std::count(expected.outcomes, expected.outcomes + 6, '0'));
    const int64_t before = inner_->Stats().allocations + inner_->Stats().reserves;
    EXPECT_EQ(Outcomes(faults), expected.outcomes) << "request " << expected.request;
    EXPECT_EQ(faults.requests(), 6u);
    EXPECT_EQ(faults.Stats().failures, failures);
    EXPECT_EQ(faults.Stats().allocations + faults.Stats().reserves - before, 6 - failures);
  }
}

TEST_F(AdaptorTest, AFaultSaysThatItIsOne) {
  FaultAllocator faults(inner_, 1, FaultAllocator::Extent::kOnce);
  ASSERT_OK(faults.Allocate(0).status());  // no request
  EXPECT_FAILS(faults.AllocateOnStream(4096, stream()).status(), kOutOfMemory,
               "[CUDAEP_OUT_OF_MEMORY] request 1 of 4096 bytes fails because it was told to");
}

TEST_F(AdaptorTest, AllocatorsOfOneCounterCountTogether) {
  const auto counter = std::make_shared<FaultCounter>(2, FaultCounter::Extent::kOnce);
  FaultAllocator first(inner_, counter), second(inner_, counter);
  EXPECT_OK(first.Reserve(64).status());
  EXPECT_FAILS(second.Reserve(64).status(), kOutOfMemory, "request 2 of 64 bytes");
  EXPECT_OK(first.Reserve(64).status());
  EXPECT_EQ(first.requests(), 3u);
  EXPECT_EQ(first.Stats().failures, 0);
  EXPECT_EQ(second.Stats().failures, 1);
}

TEST_F(AdaptorTest, ExactlyOneOfManyThreadsMeetsTheFault) {
  FaultAllocator faults(inner_, 77, FaultAllocator::Extent::kOnce);
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        Result<void*> pointer = faults.Allocate(64);
        if (pointer.ok()) {
          faults.Free(pointer.value());
        } else {
          ++failed;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(faults.requests(), 200u);
}

TEST_F(AdaptorTest, StrictRefusesMemoryWithoutAStreamAndNamesTheCaller) {
  StrictAllocator strict(inner_);
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
  auto faults = std::make_shared<FaultAllocator>(inner_, 0, FaultAllocator::Extent::kOnce);
  StrictAllocator strict(faults);
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
  EXPECT_EQ(faults->requests(), 1u);
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
