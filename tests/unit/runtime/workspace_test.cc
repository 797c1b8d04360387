#include "runtime/workspace.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

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

// Work that is queued on the old blocks is waited for.
TEST_F(WorkspaceTest, WhatItHoldsItselfMakesRoomUnderALimit) {
  const auto memory = LimitedMemory(size_t{4} << 20);
  Workspace workspace(memory, stream());
  for (const size_t mib : {1, 2, 3, 4}) {
    const size_t bytes = mib << 20;
    const Workspace::Use use(workspace, bytes);
    const Result<void*> block = workspace.Reserve(bytes);
    ASSERT_OK(block.status());
    ASSERT_OK(device::MemsetAsync(block.value(), 1, bytes, stream()));
  }
  EXPECT_EQ(memory->budget().charged_bytes(BudgetKind::kWorkspace), size_t{4} << 20);
  ASSERT_OK(device::StreamSynchronize(stream()));
}

TEST_F(WorkspaceTest, WhatTheOperatorUsesItselfMakesNoRoom) {
  const auto memory = LimitedMemory(size_t{4} << 20);
  Workspace workspace(memory, stream());
  const size_t first = size_t{2} << 20;
  const Workspace::Use use(workspace, first);
  void* const block = workspace.Reserve(first).value();
  EXPECT_EQ(workspace.Reserve(size_t{3} << 20).status().code(), StatusCode::kOutOfMemory);
  ASSERT_OK(device::MemsetAsync(block, 1, first, stream()));
  EXPECT_EQ(workspace.Reserve(first).value(), block);
  ASSERT_OK(device::StreamSynchronize(stream()));
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

TEST_F(WorkspaceTest, OutgrownBlocksGoOnceTheStreamWasWaitedFor) {
  const auto memory = LimitedMemory(0);
  Workspace workspace(memory, stream());
  for (size_t mib = 1; mib <= 16; mib *= 2) ASSERT_TRUE(workspace.Reserve(mib << 20).ok());
  EXPECT_EQ(memory->budget().charged_bytes(BudgetKind::kWorkspace), size_t{31} << 20);
  ASSERT_OK(device::StreamSynchronize(stream()));
  workspace.DropOutgrown();
  EXPECT_EQ(memory->budget().charged_bytes(BudgetKind::kWorkspace), size_t{16} << 20);
}

TEST_F(WorkspaceTest, AShrinkTakesBlocksAlongWhileTheirWorkIsQueued) {
  const auto memory = LimitedMemory(0);
  Workspace workspace(memory, stream());
  void* const first = workspace.Reserve(size_t{8} << 20).value();
  ASSERT_OK(device::MemsetAsync(first, 1, size_t{8} << 20, stream()));
  ASSERT_OK(memory->Shrink());
  EXPECT_EQ(memory->budget().charged_bytes(), 0u);
  ASSERT_OK(device::DeviceSynchronize());
  void* const second = workspace.Reserve(100).value();
  ASSERT_NE(second, nullptr);
  ASSERT_OK(device::MemsetAsync(second, 1, 100, stream()));
  EXPECT_EQ(memory->budget().charged_bytes(BudgetKind::kWorkspace), size_t{1} << 20);
}

TEST_F(WorkspaceTest, WhatAnOperatorIsUsingIsNotTaken) {
  const auto memory = LimitedMemory(0);
  Workspace workspace(memory, stream());
  {
    const Workspace::Use use(workspace, 100), nested(workspace, 100);
    void* const block = workspace.Reserve(100).value();
    std::thread([&] { ASSERT_OK(memory->Shrink()); }).join();
    ASSERT_OK(device::MemsetAsync(block, 1, 100, stream()));
  }
  EXPECT_EQ(memory->budget().charged_bytes(BudgetKind::kWorkspace), size_t{1} << 20);
  ASSERT_OK(memory->Shrink());
  EXPECT_EQ(memory->budget().charged_bytes(BudgetKind::kWorkspace), 0u);
}

TEST_F(WorkspaceTest, APinnedBlockStaysAsLongAsItsPin) {
  const auto memory = LimitedMemory(0);
  Workspace workspace(memory, stream());
  void* const block = workspace.Reserve(100).value();
  std::shared_ptr<const void> pin = workspace.Pin();
  ASSERT_OK(memory->Shrink());
  EXPECT_EQ(workspace.Reserve(100).value(), block);
  ASSERT_TRUE(workspace.Reserve(size_t{4} << 20).ok());  // outgrown
  workspace.DropOutgrown();
  ASSERT_OK(memory->Shrink());
  EXPECT_EQ(memory->budget().charged_bytes(BudgetKind::kWorkspace), size_t{1} << 20);
  ASSERT_OK(device::MemsetAsync(block, 1, 100, stream()));
  pin = nullptr;
  EXPECT_EQ(memory->budget().charged_bytes(BudgetKind::kWorkspace), 0u);
}

// A caller's graph replays into the block whenever the caller likes.
TEST_F(WorkspaceTest, WhatACallerCapturedStays) {
  const auto memory = LimitedMemory(0);
  Workspace workspace(memory, stream());
  workspace.ExpectCaptures();
  ASSERT_TRUE(workspace.Reserve(100).ok());
  ASSERT_OK(device::StreamBeginCapture(stream(), device::CaptureMode::kRelaxed));
  void* const block = workspace.Reserve(100).value();
  ASSERT_OK(device::MemsetAsync(block, 1, 100, stream()));
  device::UniqueGraph graph;
  ASSERT_OK(device::StreamEndCapture(stream(), graph.Receive()));
  device::UniqueGraphExec exec;
  ASSERT_OK(device::GraphInstantiate(exec.Receive(), graph.get()));
  ASSERT_TRUE(workspace.Reserve(size_t{4} << 20).ok());
  ASSERT_OK(device::StreamSynchronize(stream()));
  workspace.DropOutgrown();
  ASSERT_OK(memory->Shrink());
  ASSERT_OK(device::GraphLaunch(exec.get(), stream()));
  ASSERT_OK(device::StreamSynchronize(stream()));
  EXPECT_EQ(memory->budget().charged_bytes(BudgetKind::kWorkspace), size_t{1} << 20);
}

// Both run out of memory at once and look at each other's: nobody waits for anybody.
TEST_F(WorkspaceTest, TwoThatRunOutOfMemoryDoNotWaitForEachOther) {
  const auto memory = LimitedMemory(size_t{6} << 20);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, own = stream(i)] {
      Workspace workspace(memory, own);
      for (size_t round = 0; round < 200; ++round) {
        const size_t bytes = (1 + round % 4) << 20;
        const Workspace::Use use(workspace, bytes);
        Result<void*> block = workspace.Reserve(bytes);
        if (block.ok()) ASSERT_OK(device::MemsetAsync(block.value(), 1, bytes, own));
        workspace.DropOutgrown();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory->budget().charged_bytes(), 0u);
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
