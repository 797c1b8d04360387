// An external allocator over memory of a caller whose stream is the test's stream 2.
#pragma once

#include <memory>

#include "caller_memory.h"

namespace cudaep::memory::testing {

class ExternalFixture : public device::testing::DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    CallerMemory::Reset(stream(2));
    external_ = Make();
  }
  void TearDown() override {
    external_.reset();
    EXPECT_EQ(CallerMemory::outstanding(), 0u);
    EXPECT_EQ(CallerMemory::strangers(), 0u);
    CallerMemory::Reset(nullptr);
    DeviceTest::TearDown();
  }
  // Stream 2 is the caller's.
  std::unique_ptr<ExternalAllocator> Make(std::shared_ptr<Budget> budget = nullptr) {
    auto made = ExternalAllocator::Create(0, CallerMemory::Callbacks(), std::move(budget));
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return std::move(made).value();
  }
  void* On(size_t bytes, device::Stream stream) {
    Result<void*> pointer = external_->AllocateOnStream(bytes, stream);
    EXPECT_TRUE(pointer.ok()) << pointer.status().ToString();
    return pointer.value();
  }
  void* Untagged(size_t bytes) {
    Result<void*> pointer = external_->Allocate(bytes);
    EXPECT_TRUE(pointer.ok()) << pointer.status().ToString();
    return pointer.value();
  }
  static Status Use(void* pointer, size_t bytes, device::Stream stream) {
    return device::MemsetAsync(pointer, 1, bytes, stream);
  }

  std::unique_ptr<ExternalAllocator> external_;
};

}  // namespace cudaep::memory::testing
