// Pool allocators on a simulated device, and the step in which their pools grow.
#pragma once

#include <memory>

#include "../device/device_fixture.h"
#include "device/sim/memory_pool.h"
#include "memory/blocks/pool_allocator.h"

namespace cudaep::memory::testing {

inline constexpr size_t kStep = device::sim::kPoolStepBytes;

class PoolFixture : public device::testing::DeviceTest {
 protected:
  void TearDown() override {
    pool_.reset();
    DeviceTest::TearDown();
  }
  // Keeps everything at synchronisations unless told otherwise.
  static ArenaConfig Keeping(size_t threshold_bytes = SIZE_MAX) {
    ArenaConfig config;
    config.mode = ArenaMode::kPool;
    config.pool_release_threshold_bytes = threshold_bytes;
    return config;
  }
  static std::unique_ptr<PoolAllocator> Make(const ArenaConfig& config, std::shared_ptr<Budget> budget = nullptr) {
    auto made = PoolAllocator::Create(0, config, std::move(budget));
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return std::move(made).value();
  }
  static void* On(PoolAllocator& pool, size_t bytes, device::Stream stream) {
    Result<void*> pointer = pool.AllocateOnStream(bytes, stream);
    EXPECT_TRUE(pointer.ok()) << pointer.status().ToString();
    return pointer.value();
  }
  static void* Untagged(PoolAllocator& pool, size_t bytes) {
    Result<void*> pointer = pool.Allocate(bytes);
    EXPECT_TRUE(pointer.ok()) << pointer.status().ToString();
    return pointer.value();
  }

  std::unique_ptr<PoolAllocator> pool_;
};

}  // namespace cudaep::memory::testing
