// deterministic_compute: plans must not depend on how much memory happens to be free.
#include <gtest/gtest.h>

#include <cmath>

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

class ReductionTest : public device::testing::DeviceTest {
 protected:
  // The result over values whose sums round, and so depend on their order; every tensor `shift` elements behind an
  // aligned address.
  std::vector<float> Reduce(const char* op, std::vector<int64_t> dims, size_t shift, bool deterministic) {
    test::Node node("", op, 12);
    EXPECT_TRUE(node.SetOption("deterministic_compute", deterministic ? 1 : 0).ok());
    node.inputs.push_back({.type = DataType::kFloat, .dims = dims});
    node.outputs = {DataType::kFloat};
    if (op == std::string_view("ReduceMean")) node.attributes["axes"] = std::vector<int64_t>{2, 3};
    if (op == std::string_view("ReduceL2")) node.attributes["axes"] = std::vector<int64_t>{0, 1};
    if (op == std::string_view("Einsum")) node.attributes["equation"] = std::string("abcd->ab");
    std::vector<float> values(static_cast<size_t>(Shape(Dims(dims)).elems()) + shift);
    for (size_t i = shift; i < values.size(); ++i) values[i] = std::sin(0.37f * static_cast<float>(i - shift + 1));
    const TensorView x{.data = Upload(values) + shift,
                       .dim = dims.data(),
                       .rank = static_cast<int32_t>(dims.size()),
                       .type = DataType::kFloat};
    StreamContext context(0, stream());
    PlannedOperator planned;
    EXPECT_TRUE(planned.Init(node).ok());
    PlanPin pin(context.plan_pins());
    const Result<PlannedCall> call = planned.PlanFor(pin, {&x, 1}, context);
    EXPECT_TRUE(call.ok()) << call.status().ToString();
    const auto count = static_cast<size_t>(call.value().outputs[0].elems());
    std::vector<float> before(count + shift + 1, -7.0f);
    float* const y = Upload(before);
    void* output = y + shift;
    EXPECT_TRUE(planned.Enqueue(pin, call.value(), {&x, 1}, &output, nullptr, context).ok());
    std::vector<float> all = Download(y, before.size());
    EXPECT_TRUE(device::StreamSynchronize(stream()).ok());
    EXPECT_EQ(all.back(), -7.0f);
    EXPECT_TRUE(shift == 0 || all.front() == -7.0f);
    return {all.begin() + static_cast<std::ptrdiff_t>(shift), all.end() - 1};
  }
};

TEST_F(ReductionTest, BitsDoNotDependOnWhereTensorsLie) {
  int differ = 0;
  for (const char* op : {"ReduceMean", "ReduceL2", "GlobalAveragePool", "Einsum"}) {
    const std::vector<int64_t> dims = {3, 4, 20, 100};
    const auto aligned = Reduce(op, dims, 0, true);
    for (const size_t shift : {size_t{1}, size_t{3}, size_t{4}})
      EXPECT_EQ(Reduce(op, dims, shift, true), aligned) << op;
    if (Reduce(op, dims, 1, false) != aligned) ++differ;
  }
  EXPECT_GT(differ, 0);  // otherwise the lines before show nothing
}

}  // namespace
}  // namespace cudaep::ops
