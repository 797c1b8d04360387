// How group normalisation is shared out: within what the kernels have room for, and nothing left over.
#include <gtest/gtest.h>

#include "core/strings.h"
#include "device/device_info.h"
#include "kernels/norm/group_norm_input.h"

namespace cudaep::kernels {
namespace {

device::DeviceInfo Device(int major, int multiprocessors) {
  device::DeviceInfo device;
  device.major = major;
  device.multiprocessors = multiprocessors;
  return device;
}

void Check(const GroupNormProblem& problem, const GroupNormPlan& plan, const device::DeviceInfo& device) {
  EXPECT_EQ(plan.images * plan.pixels * plan.channels, problem.batch * problem.channels * problem.pixels);
  EXPECT_EQ(plan.slices * plan.slice_groups * plan.group, plan.channels);
  EXPECT_EQ(int64_t{plan.packs} * plan.pack, int64_t{plan.slice_groups} * plan.group);
  EXPECT_LE(plan.slice_groups, static_cast<int32_t>(kMostSliceGroups));
  EXPECT_GE(plan.rows, 1);
  EXPECT_LE(static_cast<unsigned>(plan.rows * plan.packs), plan.threads);
  EXPECT_LE(plan.threads, kGroupThreads);
  EXPECT_EQ(plan.threads % 32, 0u);
  EXPECT_LE(plan.shared_bytes(), size_t{16} << 10);
  EXPECT_GE(int64_t{plan.blocks} * plan.block_pixels, plan.pixels);
  EXPECT_LT(int64_t{plan.blocks - 1} * plan.block_pixels, plan.pixels);  // none is empty
  if (plan.held == 0) {
    EXPECT_GT(plan.parts_bytes(), 0u);
    return;
  }
  EXPECT_EQ(plan.parts_bytes(), 0u);
  EXPECT_GE(int64_t{plan.held} * plan.rows, plan.block_pixels);
  EXPECT_LE(plan.blocks, device.major < 9 ? 1 : static_cast<int32_t>(kGroupCluster));
}

TEST(GroupNormPlanTest, FitsTheKernelsWhateverTheSizes) {
  for (const auto& device : {Device(9, 132), Device(8, 108), Device(12, 24)}) {
    for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBFloat16}) {
      for (const bool last : {false, true}) {
        for (const int64_t channels : {16, 32, 64, 128, 256, 320, 640, 960, 1280, 1920, 2560, 8192}) {
          for (const int64_t groups : {1, 4, 8, 32}) {
            for (const int64_t pixels : {8, 64, 1024, 4096, 65536}) {
              for (const int64_t batch : {1, 2, 16}) {
                const GroupNormProblem problem{type, batch, channels, pixels, groups, last};
                const auto plan = channels < groups ? std::nullopt : PlanGroupNorm(problem, device);
                if (!plan) continue;
                SCOPED_TRACE(
                    StrCat(DataTypeName(type), " ", batch, " ", channels, " ", pixels, " ", groups, " ", last));
                Check(problem, *plan, device);
              }
            }
          }
        }
      }
    }
  }
}

TEST(GroupNormPlanTest, SlicesThatAClusterHoldsAreReadOnce) {
  const auto device = Device(9, 132);
  const auto small = PlanGroupNorm({DataType::kFloat16, 2, 1280, 256, 32, true}, device);
  ASSERT_TRUE(small);
  EXPECT_GT(small->held, 0);
  EXPECT_GT(small->blocks, 1);
  const auto alone = PlanGroupNorm({DataType::kFloat16, 2, 1280, 4096, 32, true}, Device(8, 108));
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->held, 0);
  const auto large = PlanGroupNorm({DataType::kFloat16, 1, 128, 512 * 512, 32, true}, device);
  ASSERT_TRUE(large);
  EXPECT_EQ(large->held, 0);
  EXPECT_GE(large->blocks * large->slices, device.multiprocessors);
}

TEST(GroupNormPlanTest, NothingWithoutPacks) {
  const auto device = Device(9, 132);
  EXPECT_FALSE(PlanGroupNorm({DataType::kFloat16, 2, 24, 64, 8, true}, device));   // packs of three groups
  EXPECT_FALSE(PlanGroupNorm({DataType::kFloat16, 2, 20, 64, 2, true}, device));   // channels
  EXPECT_FALSE(PlanGroupNorm({DataType::kFloat16, 2, 16, 63, 2, false}, device));  // pixels
  EXPECT_FALSE(PlanGroupNorm({DataType::kDouble, 2, 16, 64, 2, true}, device));
  EXPECT_FALSE(PlanGroupNorm({DataType::kFloat16, 1, 1 << 16, 1 << 16, 32, true}, device));  // 32 bits
  EXPECT_TRUE(PlanGroupNorm({DataType::kFloat16, 2, 16, 64, 4, true}, device));
}

}  // namespace
}  // namespace cudaep::kernels
