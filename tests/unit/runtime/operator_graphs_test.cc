#include "runtime/operator_graphs.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "../device/device_fixture.h"
#include "core/log.h"
#include "limited_memory.h"
#include "memory/allocation_label.h"

namespace cudaep {
namespace {

using device::sim::CallKind;
using device::sim::Mode;
using memory::BudgetKind;
using testing::LimitedMemory;

constexpr size_t kFloats = 100;
constexpr size_t kBytes = kFloats * sizeof(float);
constexpr size_t kNodes = 3;

struct Buffers {
  float *x = nullptr, *scratch = nullptr, *y = nullptr;
};

// Each call takes x to y by three copies.
class OperatorGraphsTest : public device::testing::DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    Begin(LimitedMemory(0));
  }
  void TearDown() override {
    context_.reset();
    memory_.reset();
    DeviceTest::TearDown();
  }
  void Begin(std::shared_ptr<memory::DeviceMemory> memory) {
    memory_ = std::move(memory);
    context_.emplace(memory_, stream());
    buffers_ = Take();
    plan_ = OperatorGraphs::NewPlan();
  }
  Buffers Take() { return {Allocate<float>(kFloats), Allocate<float>(kFloats), Allocate<float>(kFloats)}; }

  Status Call(OperatorGraphs& graphs, StreamContext& context, const Buffers& at, uint64_t plan) {
    const void* const addresses[] = {at.x, at.scratch, at.y};
    return graphs.Run(context, {plan, addresses}, std::make_shared<int>(0), [&](StreamContext& on) -> Status {
      ++(on.stream() == context.stream() ? plain_ : captures_);
      CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(at.scratch, at.x, kBytes, on.stream()));
      CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(at.y, at.scratch, kBytes, on.stream()));
      return device::MemcpyAsync(at.scratch, at.y, kBytes, on.stream());
    });
  }
  Status Call(const Buffers& at) { return Call(graphs_, *context_, at, plan_); }

  // A call with a new value, and that its result is that value.
  void Check(const Buffers& at) {
    const std::vector<float> values(kFloats, ++value_);
    ASSERT_OK(device::MemcpyAsync(at.x, values.data(), kBytes, stream()));
    ASSERT_OK(Call(at));
    EXPECT_EQ(Download(at.y, kFloats), values);
  }
  void Check() { Check(buffers_); }

  size_t Graphs() const {
    return memory_->budget().charged_bytes(BudgetKind::kGraphs) / LaunchableGraph::kBytesPerNode / kNodes;
  }
  static uint64_t Launches() { return device::sim::Snapshot().graph_launches; }

  std::shared_ptr<memory::DeviceMemory> memory_;
  OperatorGraphs graphs_{LibrarySet{}};
  std::optional<StreamContext> context_;
  Buffers buffers_;
  uint64_t plan_ = 0;
  float value_ = 0;
  std::atomic<int> plain_{0}, captures_{0};  // calls that were queued there
};

TEST_F(OperatorGraphsTest, ACallThatComesAgainIsAGraph) {
  for (const auto& [mode, seed] :
       {std::pair(Mode::kLate, 1), {Mode::kEager, 1}, {Mode::kRandom, 1}, {Mode::kRandom, 2}}) {
    context_.reset();
    memory_.reset();
    Start(With(mode, static_cast<uint64_t>(seed)));
    Begin(LimitedMemory(0));
    plain_ = captures_ = 0;
    for (int i = 0; i < 5; ++i) {
      Check();
      EXPECT_EQ(plain_, 1);
      EXPECT_EQ(captures_, i == 0 ? 0 : 1);
      EXPECT_EQ(Launches(), static_cast<uint64_t>(i));
      EXPECT_EQ(Graphs(), i == 0 ? 0u : 1u);
    }
  }
}

TEST_F(OperatorGraphsTest, StatisticsCountWhatLivesAndAllLaunches) {
  const GraphTotals before = GraphTally::Totals(GraphKind::kCalls)[0];
  const auto expect = [&](uint64_t graphs, uint64_t captured, uint64_t launches) {
    const GraphTotals now = GraphTally::Totals(GraphKind::kCalls)[0];
    EXPECT_EQ(now.graphs - before.graphs, graphs);
    EXPECT_EQ(now.bytes - before.bytes, graphs * kNodes * LaunchableGraph::kBytesPerNode);
    EXPECT_EQ(now.captured - before.captured, captured);
    EXPECT_EQ(now.launches - before.launches, launches);
  };
  for (int i = 0; i < 5; ++i) Check();
  expect(1, 1, 4);
  const Buffers other = Take();
  for (int i = 0; i < 3; ++i) Check(other);
  expect(2, 2, 6);
  context_.reset();
  expect(0, 2, 6);
  EXPECT_FALSE(GraphTally::Totals(GraphKind::kCalls).contains(1));
}

TEST_F(OperatorGraphsTest, OtherAddressesAndOtherPlansAreOtherCalls) {
  const std::vector<Buffers> all{buffers_,
                                 {Allocate<float>(kFloats), buffers_.scratch, buffers_.y},
                                 {buffers_.x, Allocate<float>(kFloats), buffers_.y},
                                 {buffers_.x, buffers_.scratch, Allocate<float>(kFloats)}};
  for (int round = 0; round < 4; ++round) {
    for (const Buffers& at : all) Check(at);
  }
  EXPECT_EQ(plain_, 4);
  EXPECT_EQ(captures_, 4);
  plan_ = OperatorGraphs::NewPlan();
  for (int round = 0; round < 3; ++round) Check();
  EXPECT_EQ(plain_, 5);
  EXPECT_EQ(captures_, 5);
  OperatorGraphs other{LibrarySet{}};
  ASSERT_OK(Call(other, *context_, buffers_, plan_));
  EXPECT_EQ(plain_, 6);
}

TEST_F(OperatorGraphsTest, TheLeastUsedMakesRoom) {
  std::vector<Buffers> all;
  for (size_t i = 0; i <= CallGraphs::kMostOfPlan; ++i) all.push_back(Take());
  for (const Buffers& at : all) {
    for (uint32_t i = 0; i < CallGraphs::kWorthwhile + 2; ++i) Check(at);
  }
  EXPECT_EQ(Graphs(), CallGraphs::kMostOfPlan);
  const int captures = captures_;
  EXPECT_EQ(captures, static_cast<int>(all.size()));
  for (size_t i = 1; i < all.size(); ++i) Check(all[i]);
  EXPECT_EQ(captures_, captures);
  Check(all[0]);
  EXPECT_EQ(captures_, captures + 1);
  for (int plan = 0; plan < 40; ++plan) {
    plan_ = OperatorGraphs::NewPlan();
    for (uint32_t i = 0; i < CallGraphs::kWorthwhile + 2; ++i) Check();
  }
  EXPECT_EQ(Graphs(), CallGraphs::kMost);
}

TEST_F(OperatorGraphsTest, ACaptureIsAtMostOneCallOfSeveral) {
  std::vector<Buffers> all;
  for (int i = 0; i < 7; ++i) all.push_back(Take());
  for (size_t cycle = 1; cycle <= all.size(); ++cycle) {
    OperatorGraphs graphs{LibrarySet{}};
    captures_ = 0;
    constexpr int kCalls = 2000;
    for (int i = 0; i < kCalls; ++i) ASSERT_OK(Call(graphs, *context_, all[static_cast<size_t>(i) % cycle], plan_));
    const int filled = static_cast<int>(std::min(cycle, CallGraphs::kMostOfPlan));
    EXPECT_GE(captures_, filled) << cycle;
    EXPECT_LE(captures_, cycle <= CallGraphs::kMostOfPlan ? filled : filled + kCalls / 8) << cycle;
  }
  captures_ = 0;
  for (uintptr_t i = 0; i < 1000; ++i) ASSERT_OK(Call(graphs_, *context_, buffers_, OperatorGraphs::NewPlan()));
  EXPECT_EQ(captures_, 0);
}

TEST_F(OperatorGraphsTest, SomeOfManyCallsInTurnAreGraphs) {
  constexpr size_t kPlans = 5 * CallGraphs::kMost, kRounds = 40;
  std::vector<uint64_t> plans(kPlans);
  for (uint64_t& plan : plans) plan = OperatorGraphs::NewPlan();
  for (size_t round = 0; round < kRounds; ++round) {
    for (const uint64_t plan : plans) ASSERT_OK(Call(graphs_, *context_, buffers_, plan));
  }
  EXPECT_EQ(Graphs(), CallGraphs::kMost);
  EXPECT_GE(Launches(), kPlans * kRounds / 16);
  EXPECT_LE(captures_, static_cast<int>(kPlans * kRounds / 8));
}

void Append(void* text, LogLevel, std::string_view message) {
  static_cast<std::string*>(text)->append(message).append("\n");
}

TEST_F(OperatorGraphsTest, WhatFailsIsLaunchedPlainlyWithOneWarning) {
  const Status refused(StatusCode::kDeviceError, "not now");
  for (const auto& [kind, nth] : {std::pair(CallKind::kStreamCreate, 1),
                                  {CallKind::kCapture, 1},
                                  {CallKind::kCapture, 2},
                                  {CallKind::kGraphInstantiate, 1},
                                  {CallKind::kGraphLaunch, 1}}) {
    std::string log;
    const LogSink sink(Append, &log);
    const memory::LabelScope label("region of 3 nodes");
    OperatorGraphs graphs{LibrarySet{}};
    context_.emplace(memory_, stream());
    const auto call = [&] { return Call(graphs, *context_, buffers_, plan_); };
    ASSERT_OK(call());
    device::sim::FailCall(kind, static_cast<uint64_t>(nth), refused);
    plain_ = 0;
    ASSERT_OK(device::MemsetAsync(buffers_.x, 0, kBytes, stream()));
    ASSERT_OK(call());
    EXPECT_EQ(Download(buffers_.y, kFloats), std::vector<float>(kFloats, 0));
    EXPECT_EQ(plain_, 1);
    for (uint32_t i = 0; i < CallGraphs::kLongestPause; ++i) ASSERT_OK(call());
    EXPECT_EQ(plain_, 1 + static_cast<int>(CallGraphs::kLongestPause));
    EXPECT_EQ(Graphs(), 0u);
    ASSERT_OK(call());
    EXPECT_EQ(Graphs(), 1u);
    EXPECT_EQ(log.find("region of 3 nodes is launched kernel by kernel"), 0u) << log;
    EXPECT_NE(log.find("not now"), std::string::npos) << log;
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
    device::sim::ClearFaults();
  }
}

TEST_F(OperatorGraphsTest, ALaunchThatFailsLaterToo) {
  for (int i = 0; i < 3; ++i) Check();
  device::sim::FailCall(CallKind::kGraphLaunch, 1, OutOfMemory("none left"));
  Check();
  EXPECT_EQ(Graphs(), 0u);
  EXPECT_EQ(plain_, 2);
}

TEST_F(OperatorGraphsTest, WorkThatFailsInTheCaptureFailsByItself) {
  const void* const addresses[] = {buffers_.x};
  const auto call = [&](Status outcome) {
    return graphs_.Run(*context_, {plan_, addresses}, nullptr, [&](StreamContext& on) -> Status {
      if (on.stream() != context_->stream()) return Internal("not in a capture");
      return outcome;
    });
  };
  for (int i = 0; i < 3; ++i) EXPECT_OK(call(Status::Ok()));
  EXPECT_FAILS(call(InvalidArgument("a shape")), kInvalidArgument, "a shape");
  Check();
}

TEST_F(OperatorGraphsTest, ALimitHolds) {
  context_.reset();
  Begin(LimitedMemory(2 * LaunchableGraph::kBytesPerNode));
  for (int i = 0; i < 4; ++i) Check();
  EXPECT_EQ(Graphs(), 0u);
  EXPECT_EQ(memory_->budget().charged_bytes(), 0u);
}

TEST_F(OperatorGraphsTest, OnTheLegacyStreamAndWhileItsOwnerCaptures) {
  context_.emplace(memory_, device::kLegacyStream);
  for (int i = 0; i < 3; ++i) ASSERT_OK(Call(buffers_));
  EXPECT_EQ(Launches(), 2u);
  ASSERT_OK(device::DeviceSynchronize());
  context_.emplace(memory_, stream());
  context_->workspace().ExpectCaptures();
  for (int i = 0; i < 3; ++i) Check();
  EXPECT_EQ(Launches(), 4u);
  ASSERT_OK(device::StreamBeginCapture(stream(), device::CaptureMode::kThreadLocal));
  plain_ = 0;
  ASSERT_OK(Call(buffers_));
  EXPECT_EQ(plain_, 1);
  device::UniqueGraph theirs;
  ASSERT_OK(device::StreamEndCapture(stream(), theirs.Receive()));
  size_t nodes = 0;
  ASSERT_OK(device::GraphNodeCount(theirs.get(), &nodes));
  EXPECT_EQ(nodes, kNodes);
  Check();
  EXPECT_EQ(Launches(), 5u);
}

TEST_F(OperatorGraphsTest, AStreamThatIsAGraphsOwnHasNone) {
  context_->workspace().BelongToGraph();
  for (int i = 0; i < 4; ++i) Check();
  EXPECT_EQ(Launches(), 0u);
}

TEST_F(OperatorGraphsTest, StreamsAndOperatorsEndInAnyOrder) {
  for (const bool stream_first : {false, true}) {
    context_.emplace(memory_, stream());
    StreamContext other(memory_, stream(1));
    auto graphs = std::make_unique<OperatorGraphs>(LibrarySet{});
    for (int i = 0; i < 3; ++i) {
      ASSERT_OK(Call(*graphs, *context_, buffers_, plan_));
      ASSERT_OK(device::StreamSynchronize(stream()));
      ASSERT_OK(Call(*graphs, other, buffers_, plan_));
      ASSERT_OK(device::StreamSynchronize(stream(1)));
    }
    EXPECT_EQ(Graphs(), 2u);
    // With work of a graph still under way.
    ASSERT_OK(Call(*graphs, *context_, buffers_, plan_));
    if (stream_first) context_.reset();
    EXPECT_EQ(Graphs(), stream_first ? 1u : 2u);
    graphs.reset();
    EXPECT_EQ(Graphs(), 0u);
    if (!stream_first) Check();  // of another operator, in the list of what has ended
    context_.reset();
    EXPECT_EQ(Graphs(), 0u);
    ASSERT_OK(device::StreamSynchronize(stream()));
  }
}

TEST_F(OperatorGraphsTest, GraphsEndBeforeWhatTheyWereCapturedWith) {
  device::Stream captured_on = nullptr;
  bool was_there = false;
  const void* const addresses[] = {buffers_.x};
  for (int i = 0; i < 2; ++i) {
    const std::shared_ptr<const void> kept(&was_there, [&](const void*) {
      was_there = captured_on != nullptr && device::StreamSynchronize(captured_on).ok();
    });
    ASSERT_OK(graphs_.Run(*context_, {plan_, addresses}, kept, [&](StreamContext& on) {
      if (on.stream() != context_->stream()) captured_on = on.stream();
      return device::MemcpyAsync(buffers_.y, buffers_.x, kBytes, on.stream());
    }));
  }
  EXPECT_FALSE(was_there);
  context_.reset();
  EXPECT_TRUE(was_there);
}

TEST_F(OperatorGraphsTest, ThreadsWithStreamsOfTheirOwn) {
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 6; ++thread) {
    threads.emplace_back([&, own = Take()] {
      for (int life = 0; life < 4; ++life) {
        device::UniqueStream stream;
        Status status = device::StreamCreate(stream.Receive());
        {
          StreamContext context(memory_, stream.get());
          for (int i = 0; i < 12 && status.ok(); ++i) status = Call(graphs_, context, own, plan_);
          if (status.ok()) status = device::StreamSynchronize(stream.get());
        }
        if (!status.ok()) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(Graphs(), 0u);
  EXPECT_EQ(captures_, 24);
}

}  // namespace
}  // namespace cudaep
