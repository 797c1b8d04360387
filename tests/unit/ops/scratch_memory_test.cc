// What a planned operator does when there is no memory for its plan's workspace.
#include <gtest/gtest.h>

#include <algorithm>

#include "../device/device_fixture.h"
#include "../runtime/limited_memory.h"
#include "ops/planned_operator.h"
#include "plain_info.h"

namespace cudaep::ops {
namespace {

using cudaep::testing::LimitedMemory;

constexpr size_t kWants = size_t{8} << 20;
size_t g_least = 0;     // what a plan cannot do without
size_t g_ran_with = 0;  // workspace of the last plan that was enqueued

class Greedy : public Operator {
 public:
  static Result<std::unique_ptr<Greedy>> Create(const OpInfo&) { return std::make_unique<Greedy>(); }
  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    outputs[0] = Shape(inputs[0].dims());
    return Status::Ok();
  }
  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<Plan>();
    plan->workspace_bytes = std::max(g_least, std::min(kWants, context.runtime.workspace().PlanLimit()));
    return plan;
  }
  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    if (plan.workspace_bytes != 0 && context.workspace == nullptr) return Internal("no workspace");
    g_ran_with = plan.workspace_bytes;
    return Status::Ok();
  }
};

const RegisterRows kRows({{.domain = "test", .op = "Greedy", .types = {{"T", kFloatTypes}}, .make = Make<Greedy>}});

class ScratchMemory : public device::testing::DeviceTest {
 protected:
  void SetUp() override {
    g_least = g_ran_with = 0;
    DeviceTest::SetUp();
    ASSERT_TRUE(planned_.Init(testing::PlainInfo("Greedy", 1)).ok());
  }

  // Runs the operator; `between` is called after planning, as a node's outputs are allocated then.
  template <class F>
  Status Run(StreamContext& context, F&& between) {
    const int64_t dims[] = {4};
    float value[4] = {};
    const TensorView inputs[] = {{.data = value, .dim = dims, .rank = 1, .type = DataType::kFloat}};
    void* outputs[] = {value};
    PlanPin pin(context.plan_pins());
    CUDAEP_ASSIGN_OR_RETURN(const PlannedCall call, planned_.PlanFor(pin, inputs, context));
    between();
    return planned_.Enqueue(pin, call, inputs, outputs, nullptr, context);
  }

  PlannedOperator planned_;
};

TEST_F(ScratchMemory, ThePlanIsMadeForWhatTheLimitLeaves) {
  StreamContext context(LimitedMemory(size_t{16} << 20), stream());
  ASSERT_TRUE(Run(context, [] {}).ok());
  EXPECT_EQ(g_ran_with, size_t{4} << 20);
}

TEST_F(ScratchMemory, ASmallerPlanTakesOverWhenTheMemoryIsGoneMeanwhile) {
  const auto memory = LimitedMemory(size_t{16} << 20);
  StreamContext context(memory, stream());
  void* tensor = nullptr;
  const auto take = [&] { tensor = memory->tensors()->AllocateOnStream(size_t{14} << 20, stream()).value(); };
  const Status status = Run(context, take);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_GT(g_ran_with, 0u);
  EXPECT_LE(g_ran_with, size_t{1} << 20);
  // The smaller plan stays for a while: not every call tries in vain.
  const int64_t failures = memory->workspaces()->Stats().failures;
  for (uint32_t i = 0; i < PlannedOperator::kDetours; ++i) {
    ASSERT_TRUE(Run(context, [] {}).ok());
    EXPECT_LE(g_ran_with, size_t{1} << 20);
  }
  EXPECT_EQ(memory->workspaces()->Stats().failures, failures);
  EXPECT_EQ(planned_.plan_count(), 2u);
  // Then the first one is tried again, and takes over where the memory is back.
  ASSERT_TRUE(Run(context, [] {}).ok());
  EXPECT_LE(g_ran_with, size_t{1} << 20);
  EXPECT_GT(memory->workspaces()->Stats().failures, failures);
  memory->tensors()->Free(tensor);
  for (uint32_t i = 0; i < PlannedOperator::kDetours; ++i) ASSERT_TRUE(Run(context, [] {}).ok());
  ASSERT_TRUE(Run(context, [] {}).ok());
  EXPECT_EQ(g_ran_with, size_t{4} << 20);
}

// A captured stream's turn to try for more would fail the capture.
TEST_F(ScratchMemory, CapturedCallsStayWithTheSmallerPlan) {
  const auto memory = LimitedMemory(size_t{16} << 20);
  StreamContext context(memory, stream());
  void* tensor = nullptr;
  ASSERT_TRUE(
      Run(context, [&] { tensor = memory->tensors()->AllocateOnStream(size_t{14} << 20, stream()).value(); }).ok());
  ASSERT_TRUE(Run(context, [] {}).ok());  // the scratch memory is there
  ASSERT_TRUE(device::StreamBeginCapture(stream(), device::CaptureMode::kThreadLocal).ok());
  const int64_t failures = memory->workspaces()->Stats().failures;
  for (uint32_t i = 0; i < 2 * PlannedOperator::kDetours; ++i) {
    const Status status = Run(context, [] {});
    ASSERT_TRUE(status.ok()) << i << ": " << status.ToString();
    EXPECT_LE(g_ran_with, size_t{1} << 20);
  }
  EXPECT_EQ(memory->workspaces()->Stats().failures, failures);
  device::UniqueGraph graph;
  EXPECT_TRUE(device::StreamEndCapture(stream(), graph.Receive()).ok());
  memory->tensors()->Free(tensor);
}

TEST_F(ScratchMemory, NoScratchMemoryAtAllIsTheLastResort) {
  const auto memory = LimitedMemory(size_t{16} << 20);
  StreamContext context(memory, stream());
  void* tensor = memory->tensors()->AllocateOnStream(size_t{15} << 20, stream()).value();
  const auto take = [&] {
    while (memory->weights()->Reserve(size_t{1} << 14).ok()) {
    }
  };
  ASSERT_TRUE(Run(context, take).ok());
  EXPECT_EQ(g_ran_with, 0u);
  memory->tensors()->Free(tensor);
}

TEST_F(ScratchMemory, APlanThatCannotShrinkFailsWithTheFirstReason) {
  g_least = kWants;
  const auto memory = LimitedMemory(size_t{4} << 20);
  StreamContext context(memory, stream());
  const Status status = Run(context, [] {});
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_NE(status.message().find("workspace"), std::string_view::npos) << status.message();
  g_least = 0;
  EXPECT_TRUE(Run(context, [] {}).ok());
}

}  // namespace
}  // namespace cudaep::ops
