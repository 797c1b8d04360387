#include "ops/planned_operator.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <thread>

#include "../core/allocation_counter.h"
#include "plain_info.h"

namespace cudaep::ops {
namespace {

std::atomic<int> g_plans{0};
std::function<void()> g_plan_goes;

struct ProbePlan final : Plan {
  ~ProbePlan() override {
    if (g_plan_goes) g_plan_goes();
  }
};

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
    return PlanPtr(std::make_unique<ProbePlan>());
  }
  Status Enqueue(const Plan&, const OpContext&) const override { return Status::Ok(); }
};

// The value of its host input merely passes through.
class PassingProbe : public Probe {
 public:
  static Result<std::unique_ptr<PassingProbe>> Create(const OpInfo&) { return std::make_unique<PassingProbe>(); }
  bool PlanReadsHostInput(int) const override { return false; }
};

// One plan for eight lengths.
class BucketedProbe : public Probe {
 public:
  static Result<std::unique_ptr<BucketedProbe>> Create(const OpInfo&) { return std::make_unique<BucketedProbe>(); }
  bool MakePlanKey(TensorViews inputs, PlanKey& key) const override {
    key.Add(inputs[0].dim[0] / 8);
    return true;
  }
};

const RegisterRows kRows(
    {{.domain = "test", .op = "Probe", .types = {{"T", kFloatTypes}}, .host_inputs = {1}, .make = Make<Probe>},
     {.domain = "test", .op = "Passing", .types = {{"T", kFloatTypes}}, .host_inputs = {1}, .make = Make<PassingProbe>},
     {.domain = "test", .op = "Bucketed", .types = {{"T", kFloatTypes}}, .make = Make<BucketedProbe>}});

class PlannedOperatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    g_plans = 0;
    ASSERT_TRUE(planned_.Init(testing::PlainInfo("Probe", 2)).ok());
    ASSERT_TRUE(passing_.Init(testing::PlainInfo("Passing", 2)).ok());
    ASSERT_TRUE(bucketed_.Init(testing::PlainInfo("Bucketed", 2)).ok());
  }
  // The plan for a first input of `dims` and a host input holding `value`; its output's first dimension.
  int64_t Ask(std::vector<int64_t> dims, std::vector<int64_t> value = {1}) { return Ask(planned_, dims, value); }
  int64_t Ask(PlannedOperator& planned, std::vector<int64_t> dims, std::vector<int64_t> value) {
    const int64_t length = static_cast<int64_t>(value.size());
    const TensorView inputs[] = {
        {.dim = dims.data(), .rank = static_cast<int32_t>(dims.size()), .type = DataType::kFloat},
        {.data = value.data(), .dim = &length, .rank = 1, .type = DataType::kInt64}};
    return AskOn(stream_, planned, inputs);
  }
  static int64_t AskOn(StreamContext& stream, PlannedOperator& planned, TensorViews inputs) {
    PlanPin pin(stream.plan_pins());
    const Result<PlannedCall> call = planned.PlanFor(pin, inputs, stream);
    return call.ok() ? call.value().outputs[0][0] : -1;
  }
  PlannedOperator planned_, passing_, bucketed_;
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
  for (int64_t i = 1; i <= 5000; ++i) EXPECT_EQ(Ask({i}), i);
  EXPECT_LE(planned_.plan_count(), PlanCache::kMaxPlans);
  EXPECT_GT(planned_.plan_count(), PlanCache::kMaxPlans / 2);
}

// A plan's memory may wait for the device; calls with other shapes do not wait with it.
TEST_F(PlannedOperatorTest, PlansGoOutsideTheLock) {
  int gone = 0, blocked = 0;
  g_plan_goes = [&] {
    if (++gone > 10 || blocked > 0) return;
    auto counted = std::make_shared<std::promise<void>>();
    std::thread([this, counted] {
      planned_.plan_count();  // takes the lock
      counted->set_value();
    }).detach();
    if (counted->get_future().wait_for(std::chrono::seconds(5)) != std::future_status::ready) ++blocked;
  };
  for (int64_t i = 1; i <= 2000; ++i) Ask({i});
  g_plan_goes = nullptr;
  EXPECT_GT(gone, 10);
  EXPECT_EQ(blocked, 0);
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
    PlanPin pin(stream_.plan_pins());
    const PlannedCall planned = planned_.PlanFor(pin, inputs, stream_).value();
    return planned_.Enqueue(pin, planned, inputs, outputs, nullptr, stream_).ok();
  };
  ASSERT_TRUE(call());
  const int64_t before = cudaep::testing::AllocationCount();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(call());
  EXPECT_EQ(cudaep::testing::AllocationCount(), before);
}

TEST_F(PlannedOperatorTest, WhatIsUsedStaysWhileOthersComeAndGo) {
  Ask({7});
  for (int64_t i = 100; i < 4000; ++i) {
    Ask({i});
    Ask({7});
  }
  EXPECT_EQ(g_plans, 1 + 3900);
}

TEST_F(PlannedOperatorTest, AKeyOfTheOperatorsOwnServesSeveralShapes) {
  for (int64_t i = 8; i < 16; ++i) EXPECT_EQ(Ask(bucketed_, {i}, {1}), i);
  EXPECT_EQ(g_plans, 1);
  EXPECT_EQ(Ask(bucketed_, {16}, {1}), 16);
  EXPECT_EQ(g_plans, 2);
}

TEST_F(PlannedOperatorTest, AKeyLongerThanItsInlineWords) {
  std::vector<int64_t> value(3 * PlanKey::kInlineWords, 1);
  EXPECT_EQ(Ask({2}, value), 2);
  EXPECT_EQ(Ask({2}, value), 2);
  EXPECT_EQ(g_plans, 1);
  value.back() = 2;
  EXPECT_EQ(Ask({2}, value), 2);
  EXPECT_EQ(g_plans, 2);
}

// As the Runs of one session on threads of their own: hits take no lock and write nothing that the threads share.
TEST_F(PlannedOperatorTest, EightThreadsWithSixShapesTakeNoLock) {
  for (int64_t i = 1; i <= 6; ++i) Ask({i});
  const int64_t slow = planned_.slow_calls();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0}, allocated{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      StreamContext stream(0, nullptr);
      const int64_t length = 1, value = 1;
      const int64_t before = cudaep::testing::AllocationCount();
      for (int64_t i = 0; i < 20000; ++i) {
        const int64_t n = 1 + (i + t) % 6;
        const TensorView inputs[] = {{.dim = &n, .rank = 1, .type = DataType::kFloat},
                                     {.data = &value, .dim = &length, .rank = 1, .type = DataType::kInt64}};
        if (AskOn(stream, planned_, inputs) != n) ++wrong;
      }
      if (cudaep::testing::AllocationCount() != before) ++allocated;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(allocated, 0);
  EXPECT_EQ(planned_.slow_calls(), slow);
}

TEST_F(PlannedOperatorTest, ManyThreadsShareOnePlanAndSurviveEviction) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      StreamContext stream(0, nullptr);
      const int64_t length = 1, value = 1;
      for (int64_t i = 0; i < 3000; ++i) {
        const int64_t n = 1 + (i * 7 + t) % 1500;  // more shapes than plans are kept
        const TensorView inputs[] = {{.dim = &n, .rank = 1, .type = DataType::kFloat},
                                     {.data = &value, .dim = &length, .rank = 1, .type = DataType::kInt64}};
        if (AskOn(stream, planned_, inputs) != n) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(planned_.plan_count(), PlanCache::kMaxPlans);
}

}  // namespace
}  // namespace cudaep::ops
