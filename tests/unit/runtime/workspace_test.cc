#include "runtime/workspace.h"

#include <gtest/gtest.h>

#include "../device/device_fixture.h"
#include "limited_memory.h"
#include "runtime/stream_context.h"

namespace cudaep {
namespace {

using memory::BudgetKind;
using testing::LimitedMemory;

using WorkspaceTest = device::testing::DeviceTest;

TEST_F(WorkspaceTest, BlocksGrowAndAreChargedUntilTheEnd) {
  const auto memory = LimitedMemory(0);
  {
    Workspace workspace(memory, stream());
    EXPECT_EQ(workspace.Reserve(0).value(), nullptr);
    void* const first = workspace.Reserve(100).value();
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(workspace.Reserve(1 << 20).value(), first);
    EXPECT_NE(workspace.Reserve((1 << 20) + 1).value(), first);
    EXPECT_EQ(memory->budget().charged_bytes(BudgetKind::kWorkspace), size_t{3} << 20);
  }
  EXPECT_EQ(memory->budget().charged_bytes(BudgetKind::kWorkspace), 0u);
  EXPECT_EQ(device::sim::LiveAllocations(0), 0u);
}

TEST_F(WorkspaceTest, UnderALimitABlockIsNoLargerThanAskedFor) {
  const auto memory = LimitedMemory(size_t{1} << 20);
  Workspace workspace(memory, stream());
  ASSERT_TRUE(workspace.Reserve(100).ok());
  EXPECT_LE(memory->budget().charged_bytes(), size_t{1} << 16);
}

TEST_F(WorkspaceTest, BeyondTheLimitItFailsAndStaysUsable) {
  const auto memory = LimitedMemory(size_t{1} << 20);
  Workspace workspace(memory, stream());
  const Status status = workspace.Reserve(size_t{2} << 20).status();
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_TRUE(workspace.Reserve(size_t{1} << 18).ok());
  EXPECT_FALSE(workspace.Reserve(SIZE_MAX).ok());
}

TEST_F(WorkspaceTest, IdleTensorMemoryMakesRoom) {
  const auto memory = LimitedMemory(size_t{4} << 20);
  const auto tensors = memory->tensors();
  void* tensor = tensors->AllocateOnStream(size_t{3} << 20, stream()).value();
  tensors->Free(tensor);
  Workspace workspace(memory, stream());
  EXPECT_TRUE(workspace.Reserve(size_t{3} << 20).ok());
}

TEST_F(WorkspaceTest, APlanMayAskForAQuarterOfWhatTheLimitLeaves) {
  Workspace unlimited(LimitedMemory(0), stream());
  EXPECT_EQ(unlimited.PlanLimit(), SIZE_MAX);
  Workspace workspace(LimitedMemory(size_t{8} << 20), stream());
  EXPECT_EQ(workspace.PlanLimit(), size_t{2} << 20);
  ASSERT_TRUE(workspace.Reserve(size_t{6} << 20).ok());
  EXPECT_EQ(workspace.PlanLimit(), size_t{6} << 20);  // what is there already
}

TEST_F(WorkspaceTest, ACeilingBoundsPlansWhileItLives) {
  Workspace workspace(LimitedMemory(0), stream());
  {
    const Workspace::Ceiling ceiling(workspace, 1000);
    EXPECT_EQ(workspace.PlanLimit(), 1000u);
    ASSERT_TRUE(workspace.Reserve(5000).ok());
    EXPECT_EQ(workspace.PlanLimit(), size_t{1} << 20);
  }
  EXPECT_EQ(workspace.PlanLimit(), SIZE_MAX);
}

TEST_F(WorkspaceTest, ACapturingStreamIsNotMadeToAllocate) {
  Workspace workspace(LimitedMemory(0), stream());
  ASSERT_TRUE(workspace.Reserve(100).ok());
  ASSERT_TRUE(device::StreamBeginCapture(stream(), device::CaptureMode::kRelaxed).ok());
  EXPECT_TRUE(workspace.Reserve(100).ok());
  EXPECT_EQ(workspace.Reserve(size_t{8} << 20).status().code(), StatusCode::kFailedPrecondition);
  device::UniqueGraph graph;
  EXPECT_TRUE(device::StreamEndCapture(stream(), graph.Receive()).ok());
}

TEST_F(WorkspaceTest, AContextOutsideASessionUsesTheDefaultMemory) {
  const auto memory = LimitedMemory(0);
  StreamContext context(0, stream());
  ASSERT_TRUE(context.workspace().Reserve(100).ok());
  EXPECT_EQ(memory->budget().charged_bytes(BudgetKind::kWorkspace), size_t{1} << 20);
  ASSERT_TRUE(context.blas().ok());
  ASSERT_TRUE(context.dnn().ok());
}

}  // namespace
}  // namespace cudaep
