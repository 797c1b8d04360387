#include "runtime/plan_timing.h"

#include <gtest/gtest.h>

#include "../device/device_fixture.h"
#include "limited_memory.h"

namespace cudaep {
namespace {

using PlanTimingTest = device::testing::DeviceTest;

// What plans are measured with counts against the session's limit, is named, and goes back.
TEST_F(PlanTimingTest, TensorsAreChargedAndNamed) {
  const auto memory = testing::LimitedMemory(size_t{4} << 20);
  StreamContext context(memory, stream());
  {
    TimingTensors tensors(context);
    ASSERT_TRUE(tensors.Random(DataType::kFloat, 700'000).ok());
    EXPECT_GE(memory->budget().charged_bytes(memory::BudgetKind::kWorkspace), size_t{2'800'000});
    const std::vector<memory::MemoryUser> users = memory->workspaces()->LargestUsers(1);
    ASSERT_EQ(users.size(), 1u);
    EXPECT_STREQ(users[0].label, "measuring plans");
    EXPECT_EQ(tensors.Uninitialised(2'800'000).status().code(), StatusCode::kOutOfMemory);
  }
  EXPECT_EQ(memory->budget().charged_bytes(), 0u);
}

}  // namespace
}  // namespace cudaep
