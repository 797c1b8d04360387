// How many plans are compiled in the background: so many, and what was not compiled is not among them.
#include "ops/background_plan.h"

#include <gtest/gtest.h>

#include <future>

#include "../lib/device_fixture.h"
#include "../runtime/no_threads.h"
#include "memory/memory_registry.h"
#include "ops/conv/runtime_engine.h"

namespace cudaep::ops {
namespace {

class BackgroundPlanTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (std::string_view(device::BackendName()) != "simulated") GTEST_SKIP() << "which problems cuDNN's engine takes";
    context_ = std::make_unique<StreamContext>(0, stream());
  }
  void TearDown() override {
    PlanStore::Process().WaitForBackground();
    context_.reset();
    DeviceTest::TearDown();
  }

  // A convolution, with the plan that serves until another is there; null: there is none.
  PlanSlotPtr Slot(const dnn::ConvProblem& p) {
    auto handle = context_->dnn();
    auto first = handle.ok() ? dnn::MakePlan(**handle, p, 1 << 20) : std::move(handle).status();
    return first.ok() ? std::make_shared<PlanSlot>(LibraryPlanPtr(std::move(first).value())) : nullptr;
  }
  static dnn::ConvProblem Problem(int64_t rows, bool deterministic = false) {
    dnn::ConvProblem p{.types = lib::MixedTypes::Of(DataType::kFloat16), .layout = dnn::Layout::kChannelsLast};
    p.batch = 1, p.in_channels = 16, p.out_channels = 8;
    p.in = p.out = {1, rows};
    p.kernel = p.stride = p.dilation = {1, 1};
    p.epilogue.bias = true;
    p.deterministic = deterministic;
    return p;
  }
  bool IsCompiled(const dnn::ConvProblem& p, CompileBudget& budget, const PlanSlotPtr& slot) {
    CompileInBackground(p, *context_, slot, {dnn::kRuntimeEngine}, budget);
    PlanStore::Process().WaitForBackground();
    return slot->plan().choice() == dnn::kRuntimeEngine;
  }
  bool IsCompiled(const dnn::ConvProblem& p, CompileBudget& budget) {
    const PlanSlotPtr slot = Slot(p);
    return slot != nullptr && IsCompiled(p, budget, slot);
  }

  // Until `go` has its value.
  static Status KeepWorkerBusy(std::promise<void>& go) {
    auto slot = std::make_shared<PlanSlot>(std::make_shared<const lib::Plan>());
    return PlanStore::Process().ReplaceInBackground(slot, [&go](const std::string&) {
      go.get_future().wait();
      return Result<LibraryPlanPtr>(NotSupported("only a wait"));
    });
  }

  std::unique_ptr<StreamContext> context_;
};

TEST_F(BackgroundPlanTest, OnlySoManyAreCompiled) {
  CompileBudget budget(2);
  EXPECT_FALSE(IsCompiled(Problem(3, true), budget));
  EXPECT_TRUE(IsCompiled(Problem(3), budget));
  EXPECT_TRUE(IsCompiled(Problem(4), budget));
  EXPECT_FALSE(IsCompiled(Problem(5), budget));
}

// What waits is not counted yet.
TEST_F(BackgroundPlanTest, NoMoreAreCompiledThanMayBe) {
  CompileBudget budget(2);
  std::vector<PlanSlotPtr> slots;
  std::promise<void> go;
  CUDAEP_ASSERT_OK(KeepWorkerBusy(go));
  for (int64_t rows = 3; rows < 7; ++rows) {
    slots.push_back(Slot(Problem(rows)));
    ASSERT_NE(slots.back(), nullptr);
    CompileInBackground(Problem(rows), *context_, slots.back(), {dnn::kRuntimeEngine}, budget);
  }
  go.set_value();
  PlanStore::Process().WaitForBackground();
  for (size_t i = 0; i < slots.size(); ++i) EXPECT_EQ(slots[i]->plan().choice() == dnn::kRuntimeEngine, i < 2) << i;
}

TEST_F(BackgroundPlanTest, WhatHasNoThreadIsNotCounted) {
  CompileBudget budget(1);
  const dnn::ConvProblem p = Problem(3);
  const PlanSlotPtr slot = Slot(p);
  ASSERT_NE(slot, nullptr);
  {
    const cudaep::testing::NoThreads none;
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(IsCompiled(p, budget, slot));
  }
  EXPECT_TRUE(IsCompiled(p, budget, slot));
}

TEST_F(BackgroundPlanTest, WhatHasNoSessionAnyMoreIsNotCounted) {
  CompileBudget budget(1);
  const dnn::ConvProblem p = Problem(3);
  const PlanSlotPtr slot = Slot(p);
  ASSERT_NE(slot, nullptr);
  std::promise<void> go;
  CUDAEP_ASSERT_OK(KeepWorkerBusy(go));
  {
    memory::MemoryConfig config;
    config.limit_bytes = size_t{1} << 30;  // so that nobody shares it
    auto memory = memory::AcquireDeviceMemory(config);
    CUDAEP_ASSERT_OK(memory.status());
    const StreamContext session(std::move(memory).value(), stream());
    CompileInBackground(p, session, slot, {dnn::kRuntimeEngine}, budget);
    EXPECT_EQ(slot->progress(), PlanSlot::Progress::kMaking);
  }
  go.set_value();
  PlanStore::Process().WaitForBackground();
  EXPECT_NE(slot->plan().choice(), dnn::kRuntimeEngine);
  EXPECT_TRUE(IsCompiled(p, budget, slot));
}

}  // namespace
}  // namespace cudaep::ops
