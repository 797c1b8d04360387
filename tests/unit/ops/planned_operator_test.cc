#include "ops/planned_operator.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <thread>

#include "plain_info.h"

namespace {
thread_local int64_t g_allocations = 0;
}
// Not inlined: the compiler would take malloc and free for a mismatched pair.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++g_allocations;
  if (void* pointer = std::malloc(bytes)) return pointer;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* pointer) noexcept { std::free(pointer); }
[[gnu::noinline]] void operator delete(void* pointer, size_t) noexcept { std::free(pointer); }

namespace cudaep::ops {
namespace {

std::atomic<int> g_plans{0};

// Its output is its first input's shape; its second input lives in host memory.
class Probe : public Operator {
 public:
  static Result<std::unique_ptr<Probe>> Create(const OpInfo&) { return std::make_unique<Probe>(); }
  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    if (inputs[0].rank == 7) return InvalidArgument("rank 7");
    outputs[0] = Shape(inputs[0].dims());
    return Status::Ok();
  }
  Result<PlanPtr> MakePlan(const PlanContext&) const override {
    ++g_plans;
    return std::make_unique<Plan>();
  }
  Status Enqueue(const Plan&, const OpContext&) const override { return Status::Ok(); }
};

// The value of its host input merely passes through.
class PassingProbe : public Probe {
 public:
  static Result<std::unique_ptr<PassingProbe>> Create(const OpInfo&) { return std::make_unique<PassingProbe>(); }
  bool PlanReadsHostInput(int) const override { return false; }
};

const RegisterRows kRows(
    {{.domain = "test", .op = "Probe", .types = {{"T", kFloatTypes}}, .host_inputs = {1}, .make = Make<Probe>},
     {.domain = "test",
      .op = "Passing",
      .types = {{"T", kFloatTypes}},
      .host_inputs = {1},
      .make = Make<PassingProbe>}});

class PlannedOperatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    g_plans = 0;
    ASSERT_TRUE(planned_.Init(testing::PlainInfo("Probe", 2)).ok());
    ASSERT_TRUE(passing_.Init(testing::PlainInfo("Passing", 2)).ok());
  }
  // The plan for a first input of `dims` and a host input holding `value`; its output's first dimension.
  int64_t Ask(std::vector<int64_t> dims, std::vector<int64_t> value = {1}) { return Ask(planned_, dims, value); }
  int64_t Ask(PlannedOperator& planned, std::vector<int64_t> dims, std::vector<int64_t> value) {
    const int64_t length = static_cast<int64_t>(value.size());
    const TensorView inputs[] = {
        {.dim = dims.data(), .rank = static_cast<int32_t>(dims.size()), .type = DataType::kFloat},
        {.data = value.data(), .dim = &length, .rank = 1, .type = DataType::kInt64}};
    const PlannedOperator::Pin pin(planned);
    Result<const Plan*> plan = planned.PlanFor(pin, inputs, stream_);
    return plan.ok() ? plan.value()->outputs[0][0] : -1;
  }
  PlannedOperator planned_, passing_;
  StreamContext stream_{0, nullptr};
};

TEST_F(PlannedOperatorTest, OnePlanForEachSetOfShapes) {
  EXPECT_EQ(Ask({2, 3}), 2);
  EXPECT_EQ(Ask({2, 3}), 2);
  EXPECT_EQ(g_plans, 1);
  EXPECT_EQ(Ask({3, 2}), 3);
  EXPECT_EQ(Ask({2, 3}), 2);
  EXPECT_EQ(Ask({2, 3, 1}), 2);
  EXPECT_EQ(g_plans, 3);
}

TEST_F(PlannedOperatorTest, HostValuesBelongToTheKey) {
  Ask({2}, {1});
  Ask({2}, {5});
  Ask({2}, {1, 5});
  Ask({2}, {1});
  EXPECT_EQ(g_plans, 3);
}

TEST_F(PlannedOperatorTest, UnlessTheOperatorSaysThatTheyDoNot) {
  Ask(passing_, {2}, {1});
  Ask(passing_, {2}, {5});
  EXPECT_EQ(g_plans, 1);
  Ask(passing_, {2}, {1, 5});
  EXPECT_EQ(g_plans, 2);
}

TEST_F(PlannedOperatorTest, ThePlansAreBounded) {
  for (int64_t i = 1; i <= 1000; ++i) EXPECT_EQ(Ask({i}), i);
  EXPECT_EQ(planned_.plan_count(), PlannedOperator::kMaxPlans);
}

TEST_F(PlannedOperatorTest, AFailureIsNotKept) {
  EXPECT_EQ(Ask({1, 1, 1, 1, 1, 1, 1}), -1);
  EXPECT_EQ(planned_.plan_count(), 0u);
}

TEST_F(PlannedOperatorTest, ASteadyCallAllocatesNothing) {
  const int64_t dims[] = {4, 5}, length = 1, value = 3;
  const TensorView inputs[] = {{.dim = dims, .rank = 2, .type = DataType::kFloat},
                               {.data = &value, .dim = &length, .rank = 1, .type = DataType::kInt64}};
  void* outputs[] = {nullptr};
  const auto call = [&] {
    const PlannedOperator::Pin pin(planned_);
    const Plan& plan = *planned_.PlanFor(pin, inputs, stream_).value();
    return planned_.Enqueue(plan, inputs, outputs, stream_).ok();
  };
  ASSERT_TRUE(call());
  const int64_t before = g_allocations;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(call());
  EXPECT_EQ(g_allocations, before);
}

TEST_F(PlannedOperatorTest, ManyThreadsShareOnePlanAndSurviveEviction) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 3000; ++i) {
        const int64_t n = 1 + (i * 7 + t) % 150;  // more shapes than plans are kept
        if (Ask({n}) != n) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(planned_.plan_count(), PlannedOperator::kMaxPlans);
}

}  // namespace
}  // namespace cudaep::ops
