// deterministic_compute: plans must not depend on how much memory happens to be free.
#include <gtest/gtest.h>

#include "../device/device_fixture.h"
#include "../runtime/limited_memory.h"
#include "node.h"
#include "ops/planned_operator.h"

namespace cudaep::ops {
namespace {

struct Problem {
  const char* name;
  const char* op;
  std::vector<std::vector<int64_t>> inputs;
  bool library;
};

class DeterministicTest : public device::testing::DeviceTest, public ::testing::WithParamInterface<Problem> {
 protected:
  // Scratch bytes of the plan that is made under a memory limit (0: none).
  size_t ScratchUnder(size_t limit_bytes, bool deterministic) {
    test::Node node("", GetParam().op, GetParam().op == std::string_view("MatMul") ? 13 : 11);
    EXPECT_TRUE(node.SetOption("deterministic_compute", deterministic ? 1 : 0).ok());
    EXPECT_TRUE(node.SetOption("enable_cudnn", GetParam().library ? 1 : 0).ok());
    std::vector<TensorView> views;
    for (const auto& dims : GetParam().inputs) {
      node.inputs.push_back({.type = DataType::kFloat, .dims = dims});
      views.push_back({.dim = dims.data(), .rank = static_cast<int32_t>(dims.size()), .type = DataType::kFloat});
    }
    node.outputs = {DataType::kFloat};
    StreamContext context(cudaep::testing::LimitedMemory(limit_bytes), stream());
    PlannedOperator planned;
    EXPECT_TRUE(planned.Init(node).ok());
    PlanPin pin(context.plan_pins());
    const Result<PlannedCall> call = planned.PlanFor(pin, views, context);
    EXPECT_TRUE(call.ok()) << call.status().ToString();
    return call.ok() ? call.value().plan->workspace_bytes : 0;
  }
};

TEST_P(DeterministicTest, WhatIsFreeDoesNotChooseThePlan) {
  const size_t plenty = ScratchUnder(0, false), scarce = ScratchUnder(size_t{2} << 10, false);
  EXPECT_GT(plenty, scarce);  // otherwise the next line shows nothing
  EXPECT_EQ(ScratchUnder(size_t{2} << 10, true), ScratchUnder(0, true));
  EXPECT_EQ(ScratchUnder(0, true), plenty);
}

INSTANTIATE_TEST_SUITE_P(
    Problems, DeterministicTest,
    ::testing::Values(Problem{"MatMul", "MatMul", {{256, 256}, {256, 256}}, true},
                      Problem{"Conv", "Conv", {{1, 64, 56, 56}, {64, 64, 3, 3}}, true},
                      Problem{"ConvByColumns", "Conv", {{1, 64, 56, 56}, {64, 64, 3, 3}}, false},
                      Problem{"ConvTransposeByColumns", "ConvTranspose", {{1, 64, 56, 56}, {64, 64, 3, 3}}, false}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace cudaep::ops
