// A region on one stream of the simulated device, called as the host does: x and y of [rows, 8] in fp32.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "../device/device_fixture.h"
#include "../runtime/limited_memory.h"
#include "graph/exec/program_builder.h"
#include "graph/exec/region_operator.h"
#include "ops/planned_operator.h"
#include "runtime/own_stream.h"

namespace cudaep::graph {

inline constexpr int64_t kWidth = 8;

// Tests compare region `with_` something with `without_` it, which MakeRegions makes.
class RegionFixture : public device::testing::DeviceTest {
 protected:
  virtual void MakeRegions() = 0;

  void SetUp() override {
    DeviceTest::SetUp();
    Begin();
  }
  void TearDown() override {
    End();
    DeviceTest::TearDown();
  }
  // `limit` bytes of memory; 0: no limit.
  void Begin(size_t limit = 0) {
    memory_ = testing::LimitedMemory(limit);
    context_.emplace(memory_, stream());
    MakeRegions();
  }
  void End() {
    context_.reset();
    with_.reset();
    without_.reset();
    memory_.reset();
  }
  std::unique_ptr<ops::PlannedOperator> Make(ir::Graph network, const Settings& settings) {
    WeightStore weights;
    auto planned = std::make_unique<ops::PlannedOperator>();
    const Status made = OnOwnStream(memory_, [&](StreamContext& stream) -> Status {
      CUDAEP_ASSIGN_OR_RETURN(Program program, BuildProgram(std::move(network), settings, weights, stream));
      planned->Init(std::make_unique<RegionOperator>(std::move(program)), {DataType::kFloat});
      return Status::Ok();
    });
    EXPECT_TRUE(made.ok()) << made.ToString();
    return planned;
  }
  static Status Call(ops::PlannedOperator& region, StreamContext& stream, const float* x, float* y, int64_t rows) {
    const int64_t dims[] = {rows, kWidth};
    const ops::TensorView inputs[] = {{.data = x, .dim = dims, .rank = 2, .type = DataType::kFloat}};
    void* outputs[] = {y};
    PlanPin pin(stream.plan_pins());
    CUDAEP_ASSIGN_OR_RETURN(const ops::PlannedCall call, region.PlanFor(pin, inputs, stream));
    return region.Enqueue(pin, call, inputs, outputs, nullptr, stream);
  }
  static std::vector<float> Values(int64_t rows, int seed) {
    std::vector<float> values(static_cast<size_t>(rows * kWidth));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>((i * 7 + static_cast<size_t>(seed) * 13) % 31) / 8 - 2;
    }
    return values;
  }

  std::shared_ptr<memory::DeviceMemory> memory_;
  std::optional<StreamContext> context_;
  std::unique_ptr<ops::PlannedOperator> with_, without_;
};

}  // namespace cudaep::graph
