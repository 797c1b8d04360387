#include "runtime/device_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "../device/device_fixture.h"
#include "limited_memory.h"
#include "memory/capture_gate.h"
#include "runtime/graph_set.h"

namespace cudaep {
namespace {

using device::sim::Mode;
using memory::BudgetKind;
using testing::LimitedMemory;

constexpr size_t kFloats = 1000;
constexpr size_t kBytes = kFloats * sizeof(float);

// A Run takes x to y through a tensor and through scratch memory.
class DeviceGraphTest : public device::testing::DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    Begin();
  }
  void Begin() {
    memory_ = LimitedMemory(0);
    x_ = Upload(std::vector<float>(kFloats, 1));
    y_ = Upload(std::vector<float>(kFloats, 0));
  }
  void TearDown() override {
    memory_.reset();
    DeviceTest::TearDown();
  }

  DeviceGraph::Setup Setup(device::Stream only_stream = nullptr, int warm_up_runs = 1) const {
    return {.memory = memory_, .libraries = {}, .only_stream = only_stream, .warm_up_runs = warm_up_runs};
  }

  // The nodes of a Run; `more` bytes of another tensor.
  Status Nodes(DeviceGraph& graph, size_t more = 0) {
    CUDAEP_ASSIGN_OR_RETURN(StreamContext * context, graph.Enter());
    const auto tensors = memory_->tensors();
    CUDAEP_ASSIGN_OR_RETURN(void* const tensor, tensors->AllocateOnStream(kBytes, graph.stream()));
    CUDAEP_ASSIGN_OR_RETURN(void* const other, tensors->AllocateOnStream(more, graph.stream()));
    const Workspace::Use use(context->workspace(), kBytes);
    CUDAEP_ASSIGN_OR_RETURN(void* const scratch, context->workspace().Reserve(kBytes));
    CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(tensor, x_, kBytes, graph.stream()));
    CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(scratch, tensor, kBytes, graph.stream()));
    CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(y_, scratch, kBytes, graph.stream()));
    tensors->Free(tensor);
    tensors->Free(other);
    tensor_ = tensor;
    scratch_ = scratch;
    return Status::Ok();
  }

  Status Run(DeviceGraph& graph, const DeviceGraph::Setup& setup, size_t more = 0) {
    CUDAEP_RETURN_IF_ERROR(graph.Begin(setup));
    Status status = Nodes(graph, more);
    return graph.End(std::move(status), true);
  }
  void Capture(DeviceGraph& graph, const DeviceGraph::Setup& setup) {
    for (int run = 0; run < setup.warm_up_runs; ++run) {
      ASSERT_FALSE(graph.captured());
      ASSERT_OK(Run(graph, setup));
    }
    ASSERT_OK(Run(graph, setup));
    ASSERT_TRUE(graph.captured());
  }

  void Write(float value) {
    const std::vector<float> values(kFloats, value);
    ASSERT_OK(device::MemcpyAsync(x_, values.data(), kBytes, stream()));
    ASSERT_OK(device::StreamSynchronize(stream()));
  }
  std::vector<float> Read() {
    std::vector<float> values(kFloats);
    EXPECT_TRUE(device::MemcpyAsync(values.data(), y_, kBytes, stream()).ok());
    EXPECT_TRUE(device::StreamSynchronize(stream()).ok());
    return values;
  }
  size_t Charged(BudgetKind kind) const { return memory_->budget().charged_bytes(kind); }

  std::shared_ptr<memory::DeviceMemory> memory_;
  float *x_ = nullptr, *y_ = nullptr;
  void *tensor_ = nullptr, *scratch_ = nullptr;  // of the last Run
};

TEST_F(DeviceGraphTest, ReplaysDoWhatTheCapturedRunDid) {
  for (const auto& [mode, seed] :
       {std::pair(Mode::kLate, 1), {Mode::kEager, 1}, {Mode::kRandom, 1}, {Mode::kRandom, 2}, {Mode::kRandom, 3}}) {
    memory_.reset();
    Start(With(mode, static_cast<uint64_t>(seed)));
    Begin();
    for (const int runs : {1, 3, 7}) {
      DeviceGraph graph;
      Capture(graph, Setup(nullptr, runs));
      EXPECT_EQ(Read(), std::vector<float>(kFloats, 1));
      for (const float value : {2.0f, 3.0f, 4.0f}) {
        Write(value);
        ASSERT_OK(graph.Replay());
        EXPECT_EQ(Read(), std::vector<float>(kFloats, value));
      }
      Write(1);
    }
  }
}

TEST_F(DeviceGraphTest, StatisticsCountCapturesAndReplays) {
  const auto totals = [] { return GraphTally::Totals(GraphKind::kRuns)[0]; };
  const GraphTotals before = totals();
  {
    DeviceGraph graph;
    Capture(graph, Setup(nullptr, 2));
    for (int i = 0; i < 3; ++i) ASSERT_OK(graph.Replay());
    EXPECT_EQ(totals().graphs, before.graphs + 1);
    EXPECT_GE(totals().bytes, before.bytes + 3 * LaunchableGraph::kBytesPerNode);
    EXPECT_EQ(totals().launches, before.launches + 4);  // the captured Run is launched too
  }
  EXPECT_EQ(totals().graphs, before.graphs);
  EXPECT_EQ(totals().bytes, before.bytes);
  EXPECT_EQ(totals().captured, before.captured + 1);
  EXPECT_EQ(totals().launches, before.launches + 4);
}

TEST_F(DeviceGraphTest, ItsMemoryIsNobodyElsesUntilItEnds) {
  const auto tensors = memory_->tensors();
  {
    DeviceGraph graph;
    Capture(graph, Setup());
    EXPECT_GE(Charged(BudgetKind::kGraphs), 2 * kBytes + 3 * LaunchableGraph::kBytesPerNode);
    EXPECT_EQ(Charged(BudgetKind::kWorkspace), 0u);
    ASSERT_OK(memory_->Shrink());
    std::vector<void*> others;
    for (int i = 0; i < 200; ++i) {
      others.push_back(tensors->AllocateOnStream(kBytes / 2 + static_cast<size_t>(i) * 256, stream(i % 3)).value());
      others.push_back(tensors->Allocate(kBytes).value());
    }
    for (const void* other : others) {
      EXPECT_TRUE(other != tensor_ && other != scratch_);
      ASSERT_OK(device::MemsetAsync(const_cast<void*>(other), 0x55, 256, stream()));
    }
    ASSERT_OK(device::StreamSynchronize(stream()));
    for (void* other : others) tensors->Free(other);
    ASSERT_OK(memory_->Shrink());
    Write(5);
    ASSERT_OK(graph.Replay());
    EXPECT_EQ(Read(), std::vector<float>(kFloats, 5));
  }
  EXPECT_EQ(Charged(BudgetKind::kGraphs), 0u);
  ASSERT_OK(memory_->Shrink());
  EXPECT_EQ(memory_->budget().charged_bytes(), 0u);
}

TEST_F(DeviceGraphTest, MemoryForTheCaptureMayBeNew) {
  DeviceGraph graph;
  ASSERT_OK(Run(graph, Setup()));
  ASSERT_OK(Run(graph, Setup(), size_t{64} << 20));
  ASSERT_TRUE(graph.captured());
  Write(6);
  ASSERT_OK(graph.Replay());
  EXPECT_EQ(Read(), std::vector<float>(kFloats, 6));
}

TEST_F(DeviceGraphTest, AFailedRunDropsWhatThereWas) {
  DeviceGraph graph;
  for (const int good : {0, 1}) {
    for (int run = 0; run < good; ++run) ASSERT_OK(Run(graph, Setup()));
    ASSERT_OK(graph.Begin(Setup()));
    ASSERT_OK(Nodes(graph));
    EXPECT_FAILS(graph.End(InvalidArgument("the node said no"), true), kInvalidArgument, "the node said no");
    EXPECT_FALSE(graph.captured());
    EXPECT_EQ(Charged(BudgetKind::kGraphs), 0u);
  }
  Capture(graph, Setup());
}

TEST_F(DeviceGraphTest, ACallThatEndsTheCaptureIsAnErrorOfTheRun) {
  DeviceGraph graph;
  ASSERT_OK(Run(graph, Setup()));
  ASSERT_OK(graph.Begin(Setup()));
  ASSERT_OK(Nodes(graph));
  EXPECT_FALSE(device::StreamSynchronize(graph.stream()).ok());
  EXPECT_FAILS(graph.End(Status::Ok(), true), kFailedPrecondition, "capture of the Run into a CUDA graph");
  Capture(graph, Setup());
}

TEST_F(DeviceGraphTest, PlansOfItsNodesAreInUseUntilItEnds) {
  std::array<char, 9> plans{};
  const auto in_use = [&plans] {
    const std::vector<const void*> all = PlanPins::All();
    return std::ranges::count_if(
        plans, [&](const char& plan) { return std::ranges::binary_search(all, static_cast<const void*>(&plan)); });
  };
  {
    DeviceGraph graph;
    for (const bool captures : {false, true}) {
      ASSERT_OK(graph.Begin(Setup()));
      ASSERT_OK(Nodes(graph));
      for (const char& plan : plans) graph.Hold(&plan);
      EXPECT_EQ(in_use(), captures ? 9 : 0);
      ASSERT_OK(graph.End(Status::Ok(), true));
    }
    ASSERT_OK(graph.Replay());
    EXPECT_EQ(in_use(), 9);
  }
  EXPECT_EQ(in_use(), 0);
}

TEST_F(DeviceGraphTest, ALimitHolds) {
  memory_ = LimitedMemory(size_t{1} << 17);
  DeviceGraph graph;
  ASSERT_OK(Run(graph, Setup()));
  memory::Budget& budget = memory_->budget();
  const size_t rest = budget.available_bytes();
  ASSERT_TRUE(budget.TryCharge(BudgetKind::kLibraries, rest));
  EXPECT_FAILS(Run(graph, Setup()), kOutOfMemory, "CUDA graph of 3 nodes");
  budget.Release(BudgetKind::kLibraries, rest);
  Capture(graph, Setup());
}

TEST_F(DeviceGraphTest, ARunBesideTheGraphTakesItsTurn) {
  DeviceGraph graph;
  Capture(graph, Setup());
  Write(7);
  ASSERT_OK(Run(graph, Setup()));
  EXPECT_EQ(Read(), std::vector<float>(kFloats, 7));
  ASSERT_OK(graph.Begin(Setup()));
  ASSERT_OK(Nodes(graph));
  EXPECT_FAILS(graph.End(InvalidArgument("not this time"), true), kInvalidArgument, "not this time");
  Write(8);
  ASSERT_OK(graph.Replay());
  EXPECT_EQ(Read(), std::vector<float>(kFloats, 8));
}

// Everything is queued on it or ordered with it; nobody waits.
TEST_F(DeviceGraphTest, TheSessionsStreamOrdersRunsAndReplays) {
  DeviceGraph graph;
  const DeviceGraph::Setup setup = Setup(stream(1));
  const auto produce = [&](const std::vector<float>& values) {
    ASSERT_OK(device::MemcpyAsync(x_, values.data(), kBytes, stream(1)));
  };
  for (const float value : {1.0f, 2.0f, 3.0f, 4.0f}) {
    const std::vector<float> values(kFloats, value);
    produce(values);
    if (graph.captured()) {
      ASSERT_OK(graph.Replay());
    } else {
      ASSERT_OK(graph.Begin(setup));
      ASSERT_OK(Nodes(graph));
      ASSERT_OK(graph.End(Status::Ok(), false));
    }
    std::vector<float> found(kFloats);
    ASSERT_OK(device::MemcpyAsync(found.data(), y_, kBytes, stream(1)));
    ASSERT_OK(device::StreamSynchronize(stream(1)));
    EXPECT_EQ(found, values);
  }
}

TEST_F(DeviceGraphTest, TheCallersCaptureOfTheSessionsStreamIsLeftAlone) {
  for (const bool captured : {false, true}) {
    DeviceGraph graph;
    const DeviceGraph::Setup setup = Setup(stream(1));
    if (captured) Capture(graph, setup);
    ASSERT_OK(device::StreamBeginCapture(stream(1), device::CaptureMode::kThreadLocal));
    if (captured) {
      EXPECT_FAILS(graph.Replay(), kFailedPrecondition, "gpu_graph_id=-1");
    } else {
      EXPECT_FAILS(graph.Begin(setup), kFailedPrecondition, "gpu_graph_id=-1");
    }
    device::UniqueGraph theirs;
    EXPECT_OK(device::StreamEndCapture(stream(1), theirs.Receive()));
    if (captured) EXPECT_OK(graph.Replay());
  }
}

TEST_F(DeviceGraphTest, AWaitForTheDeviceTakesTurnsWithCaptures) {
  DeviceGraph graph;
  ASSERT_OK(Run(graph, Setup()));
  ASSERT_OK(graph.Begin(Setup()));
  ASSERT_OK(Nodes(graph));
  std::atomic<bool> waited{false};
  Status status;
  std::thread waiter([&] {
    status = memory::SynchronizeDevice();
    waited = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(waited);
  EXPECT_OK(graph.End(Status::Ok(), true));
  waiter.join();
  EXPECT_OK(status);
  EXPECT_TRUE(graph.captured());
}

TEST_F(DeviceGraphTest, MemoryThatCannotBelongToAGraphIsRefused) {
  memory::MemoryConfig config;
  config.arena.mode = memory::ArenaMode::kPool;
  memory_ = memory::AcquireDeviceMemory(config).value();
  DeviceGraph graph;
  EXPECT_FAILS(graph.Begin(Setup()), kNotSupported, "arena");
}

class GraphSetTest : public DeviceGraphTest {
 protected:
  Status RunOnce(GraphSet& set, int id) {
    CUDAEP_ASSIGN_OR_RETURN(DeviceGraph* const graph, set.BeginRun(id, Setup()));
    Status status = Nodes(*graph);
    return set.EndRun(id, graph, std::move(status), true);
  }
};

TEST_F(GraphSetTest, GraphsAreFoundCountedAndReleased) {
  GraphSet set(2);
  EXPECT_FALSE(set.IsCaptured(0));
  EXPECT_FAILS(set.Replay(0), kFailedPrecondition, "gpu_graph_id=0");
  EXPECT_OK(set.Release(0));
  for (const int id : {0, -5}) {
    ASSERT_OK(RunOnce(set, id));
    EXPECT_FALSE(set.IsCaptured(id));
    ASSERT_OK(RunOnce(set, id));
    EXPECT_TRUE(set.IsCaptured(id));
    EXPECT_OK(set.Replay(id));
  }
  EXPECT_FAILS(RunOnce(set, 1), kFailedPrecondition, "cuda_graph_max_count");
  const size_t charged = Charged(BudgetKind::kGraphs);
  EXPECT_OK(set.Release(0));
  EXPECT_LT(Charged(BudgetKind::kGraphs), charged);
  EXPECT_FALSE(set.IsCaptured(0));
  EXPECT_OK(RunOnce(set, 1));
}

TEST_F(GraphSetTest, AFailedRunLeavesRoomForOthers) {
  GraphSet set(1);
  DeviceGraph* const graph = set.BeginRun(0, Setup()).value();
  EXPECT_FALSE(set.EndRun(0, graph, Internal("no"), true).ok());
  EXPECT_OK(RunOnce(set, 1));
}

TEST_F(GraphSetTest, WhatItWouldWaitForItselfIsRefused) {
  GraphSet set(2);
  DeviceGraph* const graph = set.BeginRun(0, Setup()).value();
  EXPECT_FAILS(set.BeginRun(0, Setup()).status(), kFailedPrecondition, "inside another one");
  EXPECT_FAILS(set.Release(0), kFailedPrecondition, "inside its own Run");
  EXPECT_OK(set.EndRun(0, graph, Nodes(*graph), true));
}

TEST_F(GraphSetTest, RunsOfDifferentIdsOverlap) {
  GraphSet set(2);
  DeviceGraph* const graph = set.BeginRun(0, Setup()).value();
  std::promise<Status> ran;
  std::future<Status> other = ran.get_future();
  std::thread thread([&] { ran.set_value(RunOnce(set, 1)); });
  const bool overlapped = other.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  EXPECT_OK(set.EndRun(0, graph, Nodes(*graph), true));
  thread.join();
  EXPECT_TRUE(overlapped);
  EXPECT_OK(other.get());
}

TEST_F(GraphSetTest, ARunThatIsGivenUpLeavesItsTurnToOthers) {
  GraphSet set(1);
  DeviceGraph* const graph = set.BeginRun(0, Setup()).value();
  ASSERT_OK(Nodes(*graph));
  set.GiveUpRun(0, graph);
  std::thread([&] {
    EXPECT_OK(RunOnce(set, 0));
    EXPECT_OK(RunOnce(set, 0));
  }).join();
  DeviceGraph* const captured = set.BeginRun(0, Setup()).value();  // beside the graph
  set.GiveUpRun(0, captured);
  EXPECT_TRUE(set.IsCaptured(0));
  EXPECT_OK(set.Replay(0));
}

// Of one id, and released now and then by one of them.
TEST_F(GraphSetTest, ThreadsTakeTurns) {
  GraphSet set(1);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 6; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 30; ++i) {
        Status status = set.IsCaptured(3) ? set.Replay(3) : Status(StatusCode::kFailedPrecondition, "");
        if (status.code() == StatusCode::kFailedPrecondition) status = RunOnce(set, 3);
        if (thread == 0 && i % 7 == 6 && status.ok()) status = set.Release(3);
        if (!status.ok()) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

}  // namespace
}  // namespace cudaep
