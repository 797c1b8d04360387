// Which plans a region makes when only some of its inputs' dimensions change.
#include <gtest/gtest.h>

#include <atomic>

#include "graph/exec/program_builder.h"
#include "graph/exec/region_operator.h"
#include "ops/planned_operator.h"

namespace cudaep::graph {
namespace {

std::atomic<int> g_plans{0};

// Its output is like its input.
class Counted : public ops::Operator {
 public:
  static Result<std::unique_ptr<Counted>> Create(const ops::OpInfo&) { return std::make_unique<Counted>(); }
  Status InferShapes(ops::TensorViews inputs, std::vector<Shape>& outputs) const override {
    outputs[0] = Shape(inputs[0].dims());
    return Status::Ok();
  }
  Result<ops::PlanPtr> MakePlan(const ops::PlanContext& context) const override {
    ++g_plans;
    auto plan = std::make_unique<ops::Plan>();
    plan->cost_flops = static_cast<double>(context.outputs[0].elems());
    return ops::PlanPtr(std::move(plan));
  }
  Status Enqueue(const ops::Plan&, const ops::OpContext& context) const override {
    return SameDims(context.shapes[0], context.inputs[0].dims()) ? Status::Ok() : Internal("shapes of another call");
  }
};

// One plan for eight lengths.
class Rounded : public Counted {
 public:
  static Result<std::unique_ptr<Rounded>> Create(const ops::OpInfo&) { return std::make_unique<Rounded>(); }
  bool MakePlanKey(ops::TensorViews inputs, ops::PlanKey& key) const override {
    key.Add(inputs[0].dim[0] / 8);
    return true;
  }
};

const ops::RegisterRows kRows(
    {{.domain = "test", .op = "Counted", .types = {{"T", kFloatTypes}}, .make = ops::Make<Counted>},
     {.domain = "test", .op = "Rounded", .types = {{"T", kFloatTypes}}, .make = ops::Make<Rounded>}});

// Two chains side by side: Counted of the first input, and `op` of the second.
class RecipePlansTest : public ::testing::Test {
 protected:
  void Build(const char* op) {
    ir::Graph graph;
    for (const char* const name : {"Counted", op}) {
      const int index = static_cast<int>(graph.inputs.size());
      const int x = graph.AddValue({.name = "x", .type = DataType::kFloat, .input = index});
      const int y = graph.AddValue({.name = "y", .type = DataType::kFloat, .output = index});
      graph.inputs.push_back(x);
      graph.outputs.push_back(y);
      graph.nodes.push_back({.name = name, .domain = "test", .op_type = name, .inputs = {x}, .outputs = {y}});
      graph.nodes.back().sources = {name};
    }
    Build(graph, 2);
  }
  void Build(const ir::Graph& graph, size_t outputs) {
    WeightStore weights;
    Result<Program> program = BuildProgram(graph, settings_, weights, stream_);
    ASSERT_TRUE(program.ok()) << program.status().ToString();
    region_.Init(std::make_unique<RegionOperator>(std::move(program).value()),
                 std::vector<DataType>(outputs, DataType::kFloat));
    g_plans = 0;
  }
  // FLOPs of the call's plan.
  double Call(int64_t first, int64_t second) {
    const ops::TensorView inputs[] = {{.dim = &first, .rank = 1, .type = DataType::kFloat},
                                      {.dim = &second, .rank = 1, .type = DataType::kFloat}};
    void* outputs[] = {nullptr, nullptr};
    PlanPin pin(stream_.plan_pins());
    const Result<ops::PlannedCall> call = region_.PlanFor(pin, inputs, stream_);
    EXPECT_TRUE(call.ok()) << call.status().ToString();
    EXPECT_EQ(call.value().outputs[0][0], first);
    EXPECT_EQ(call.value().outputs[1][0], second);
    const Status queued = region_.Enqueue(pin, call.value(), inputs, outputs, nullptr, stream_);
    EXPECT_TRUE(queued.ok()) << queued.ToString();
    return call.value().plan->cost_flops;
  }

  Settings settings_;
  StreamContext stream_{0, nullptr};
  ops::PlannedOperator region_;
};

// The dimensions of what two Counted make in turn, and a third one beside them.
TEST_F(RecipePlansTest, WhereOnlyDimensionsAreReadNothingRuns) {
  ir::Graph graph;
  const auto value = [&](const char* name, DataType type = DataType::kFloat) {
    return graph.AddValue({.name = name, .type = type});
  };
  const int x = value("x"), middle = value("middle"), last = value("last"), y = value("y");
  const int dims = value("dims", DataType::kInt64), reshaped = value("reshaped");
  const auto counted = [&](int from, int to) {
    graph.nodes.push_back(
        {.domain = "test", .op_type = "Counted", .inputs = {from}, .outputs = {to}, .sources = {"Counted"}});
  };
  counted(x, middle);
  counted(middle, last);
  graph.nodes.push_back({.op_type = "Shape", .since_version = 13, .inputs = {last}, .outputs = {dims}});
  graph.nodes.back().on_host = true;
  counted(x, y);
  graph.nodes.push_back({.op_type = "Reshape", .since_version = 13, .inputs = {y, dims}, .outputs = {reshaped}});
  graph.nodes.back().sources = {"Reshape"};
  graph.inputs = {x};
  graph.outputs = {reshaped, y};
  graph.value(x).input = graph.value(reshaped).output = 0;
  graph.value(y).output = 1;
  Build(graph, 2);
  const int64_t rows = 7;
  const ops::TensorView inputs[] = {{.dim = &rows, .rank = 1, .type = DataType::kFloat}};
  PlanPin pin(stream_.plan_pins());
  const Result<ops::PlannedCall> call = region_.PlanFor(pin, inputs, stream_);
  ASSERT_TRUE(call.ok()) << call.status().ToString();
  EXPECT_EQ(call.value().outputs[0][0], rows);
  EXPECT_EQ(g_plans, 1);
  EXPECT_EQ(call.value().plan->cost_flops, static_cast<double>(rows));
  EXPECT_EQ(call.value().plan->workspace_bytes, 0u);
}

TEST_F(RecipePlansTest, StepsWhoseDimensionsStayAreNotPlannedAgain) {
  Build("Counted");
  for (int64_t past = 1; past <= 20; ++past) EXPECT_EQ(Call(5, past), static_cast<double>(5 + past));
  EXPECT_EQ(g_plans, 21);
  EXPECT_EQ(region_.plan_count(), 20u);
  for (int64_t past = 1; past <= 20; ++past) Call(5, past);
  EXPECT_EQ(g_plans, 21);
}

TEST_F(RecipePlansTest, APlanThatServesSeveralShapesIsShared) {
  Build("Rounded");
  for (int64_t past = 8; past <= 31; ++past) Call(5, past);
  EXPECT_EQ(g_plans, 4);
}

TEST_F(RecipePlansTest, EmptyStepsHaveNone) {
  Build("Rounded");
  EXPECT_EQ(Call(0, 3), 3);
  EXPECT_EQ(Call(3, 0), 3);
  EXPECT_EQ(Call(0, 0), 0);
  EXPECT_EQ(Call(3, 3), 6);
  EXPECT_EQ(g_plans, 2);
}

TEST_F(RecipePlansTest, TheLatestAreKept) {
  Build("Counted");
  for (int64_t n = 1; n <= 3 * static_cast<int64_t>(StepPlans::kMost); ++n) Call(n, 7);
  g_plans = 0;
  Call(2, 8);  // the first chain's plan is gone, the second's is new
  EXPECT_EQ(g_plans, 2);
  Call(3 * static_cast<int64_t>(StepPlans::kMost), 8);
  Call(3 * static_cast<int64_t>(StepPlans::kMost), 9);
  EXPECT_EQ(g_plans, 3);
}

}  // namespace
}  // namespace cudaep::graph
