// Constants that several regions read are on the device once, and those that passes make belong to their region.
#include "graph/exec/weight_store.h"

#include <gtest/gtest.h>

#include <optional>

#include "../device/device_fixture.h"
#include "../runtime/limited_memory.h"
#include "graph/exec/program_builder.h"

namespace cudaep::graph {
namespace {

using memory::BudgetKind;
using testing::LimitedMemory;

constexpr int64_t kElems = 1000;
constexpr size_t kBytes = kElems * sizeof(float);

class WeightStoreTest : public device::testing::DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    memory_ = LimitedMemory(0);
    context_.emplace(memory_, stream());
  }
  void TearDown() override {
    context_.reset();
    memory_.reset();
    DeviceTest::TearDown();
  }
  // y = x + w
  Result<Program> Build(const char* name, float element, bool is_initializer) {
    ir::Graph graph;
    const std::vector<ir::Dim> dims{{kElems}};
    const int x = graph.AddValue({.name = "x", .type = DataType::kFloat, .dims = dims, .input = 0});
    const int y = graph.AddValue({.name = "y", .type = DataType::kFloat, .dims = dims, .output = 0});
    ops::HostTensor weight{.type = DataType::kFloat, .dims = {kElems}, .data = {}};
    const std::vector<float> elements(kElems, element);
    const auto* bytes = reinterpret_cast<const std::byte*>(elements.data());
    weight.data.assign(bytes, bytes + kBytes);
    const int w = graph.AddConstant(name, std::move(weight));
    graph.value(w).is_initializer = is_initializer;
    graph.inputs = {x};
    graph.outputs = {y};
    graph.nodes.push_back(
        {.name = "add", .op_type = "Add", .since_version = 14, .inputs = {x, w}, .outputs = {y}, .sources = {"add"}});
    CUDAEP_ASSIGN_OR_RETURN(Program program, BuildProgram(graph, {}, store_, *context_));
    CUDAEP_RETURN_IF_ERROR(device::StreamSynchronize(stream()));
    return program;
  }
  static const float* WeightOf(const Result<Program>& program) {
    EXPECT_OK(program.status());
    return static_cast<const float*>(program.value().values.back().device_constant);
  }
  size_t Charged() const { return memory_->budget().charged_bytes(BudgetKind::kWeights); }

  std::shared_ptr<memory::DeviceMemory> memory_;
  std::optional<StreamContext> context_;
  WeightStore store_;
};

TEST_F(WeightStoreTest, AConstantOfTheModelIsThereOnce) {
  auto first = std::make_unique<Result<Program>>(Build("w", 3, true));
  const float* const weight = WeightOf(*first);
  const size_t once = Charged();
  EXPECT_GE(once, kBytes);
  auto second = std::make_unique<Result<Program>>(Build("w", 3, true));
  EXPECT_EQ(WeightOf(*second), weight);
  EXPECT_EQ(Charged(), once);
  first.reset();
  EXPECT_EQ(Download(weight, kElems), std::vector<float>(kElems, 3));
  second.reset();
  EXPECT_EQ(Charged(), 0u);
}

TEST_F(WeightStoreTest, OthersAreNotMixedUp) {
  const Result<Program> model = Build("w", 3, true), another = Build("v", 4, true), made = Build("w", 5, false);
  EXPECT_EQ(Download(WeightOf(model), kElems), std::vector<float>(kElems, 3));
  EXPECT_EQ(Download(WeightOf(another), kElems), std::vector<float>(kElems, 4));
  EXPECT_EQ(Download(WeightOf(made), kElems), std::vector<float>(kElems, 5));
}

}  // namespace
}  // namespace cudaep::graph
