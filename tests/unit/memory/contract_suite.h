// The allocator contract as tests. An allocator joins with one line:
//   INSTANTIATE_TEST_SUITE_P(Arena, AllocatorContract, ::testing::Values(Contender{"arena", MakeArena}), NameOf);
#pragma once

#include <memory>
#include <string>

#include "../device/device_fixture.h"
#include "memory/allocator.h"
#include "memory/budget.h"

namespace cudaep::memory::testing {

struct Contender {
  const char* name;
  std::unique_ptr<Allocator> (*make)(std::shared_ptr<Budget> budget);
};

class AllocatorContract : public device::testing::DeviceTest, public ::testing::WithParamInterface<Contender> {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    Renew();
  }
  void TearDown() override {
    allocator_.reset();
    EXPECT_EQ(budget_->charged_bytes(), 0u);
    DeviceTest::TearDown();
  }
  // A new allocator that knows the test's streams.
  void Renew(size_t limit_bytes = 0) {
    allocator_.reset();
    budget_ = std::make_shared<Budget>(limit_bytes);
    allocator_ = GetParam().make(budget_);
    for (int i = 0; i < 3; ++i) allocator_->AddStream(stream(i));
  }
  void* On(size_t bytes, device::Stream stream) {
    Result<void*> pointer = allocator_->AllocateOnStream(bytes, stream);
    EXPECT_TRUE(pointer.ok()) << pointer.status().ToString();
    return pointer.value();
  }
  void Synchronize(int index) {
    const StreamMark before = allocator_->Mark(stream(index));
    EXPECT_OK(device::StreamSynchronize(stream(index)));
    allocator_->Reached(before);
  }

  std::shared_ptr<Budget> budget_;
  std::unique_ptr<Allocator> allocator_;
};

inline std::string NameOf(const ::testing::TestParamInfo<Contender>& info) { return info.param.name; }

}  // namespace cudaep::memory::testing
