// An arena over a simulated device.
#pragma once

#include <algorithm>
#include <memory>

#include "../device/device_fixture.h"
#include "memory/arena/arena.h"

namespace cudaep::memory::testing {

inline constexpr size_t kMiB = size_t{1} << 20;

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
    const StreamMark before = arena_->Mark(stream(index));
    ASSERT_OK(device::StreamSynchronize(stream(index)));
    arena_->Reached(before);
  }

  std::unique_ptr<Arena> arena_;
};

}  // namespace cudaep::memory::testing
