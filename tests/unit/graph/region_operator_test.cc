// What a compiled region queues: the same bits with CUDA graphs of its own and without, for any addresses and shapes.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "../core/allocation_counter.h"
#include "core/log.h"
#include "memory/allocation_label.h"
#include "region_fixture.h"

namespace cudaep::graph {
namespace {

using device::sim::CallKind;
using device::sim::Mode;
using memory::BudgetKind;

// y = Softmax(Relu(x) W) + x, for x of [n, 8].
ir::Graph Network() {
  ir::Graph graph;
  const std::vector<ir::Dim> rows{{kUnknownDim, "n"}, {kWidth}};
  const auto value = [&](const char* name) {
    return graph.AddValue({.name = name, .type = DataType::kFloat, .dims = rows});
  };
  const auto add = [&](const char* op, int version, std::vector<int> inputs) {
    const int output = value(op);
    graph.nodes.push_back({.name = op,
                           .op_type = op,
                           .since_version = version,
                           .inputs = std::move(inputs),
                           .outputs = {output},
                           .sources = {op}});
    return output;
  };
  const int x = value("x");
  graph.value(x).input = 0;
  graph.inputs = {x};
  ops::HostTensor weight{.type = DataType::kFloat, .dims = {kWidth, kWidth}, .data = {}};
  weight.data.resize(weight.view().bytes());
  auto* w = reinterpret_cast<float*>(weight.data.data());
  for (int i = 0; i < kWidth * kWidth; ++i) w[i] = static_cast<float>(i % 11 - 5) / 4;
  const int product = add("MatMul", 13, {add("Relu", 14, {x}), graph.AddConstant("w", std::move(weight))});
  const int y = add("Add", 14, {add("Softmax", 13, {product}), x});
  graph.value(y).output = 0;
  graph.outputs = {y};
  return graph;
}

class RegionOperatorTest : public RegionFixture {
 protected:
  void MakeRegions() override {
    with_ = Make(true);
    without_ = Make(false);
  }
  std::unique_ptr<ops::PlannedOperator> Make(bool graphs) {
    Settings settings;
    settings.region_graphs = graphs;
    return RegionFixture::Make(Network(), settings);
  }
  std::vector<float> Run(ops::PlannedOperator& region, float* x, float* y, int64_t rows, int seed) {
    const std::vector<float> values = Values(rows, seed);
    EXPECT_OK(device::MemcpyAsync(x, values.data(), values.size() * sizeof(float), stream()));
    EXPECT_OK(Call(region, *context_, x, y, rows));
    return Download(y, values.size());
  }
  // Another value in the same buffers.
  void Compare(float* x, float* y, int64_t rows) {
    const int seed = ++seed_;
    float* const other = Allocate<float>(static_cast<size_t>(rows * kWidth));
    const std::vector<float> expected = Run(*without_, x, other, rows, seed);
    EXPECT_EQ(Run(*with_, x, y, rows, seed), expected);
    EXPECT_EQ(expected == std::vector<float>(expected.size(), 0), rows == 0);
    EXPECT_OK(device::Free(other));
  }
  static uint64_t Launches() { return device::sim::Snapshot().graph_launches; }
  size_t GraphBytes() const { return memory_->budget().charged_bytes(BudgetKind::kGraphs); }

  int seed_ = 0;
};

TEST_F(RegionOperatorTest, ReplaysGiveTheSameBits) {
  for (const auto& [mode, seed] :
       {std::pair(Mode::kLate, 1), {Mode::kEager, 1}, {Mode::kRandom, 1}, {Mode::kRandom, 2}, {Mode::kRandom, 3}}) {
    End();
    Start(With(mode, static_cast<uint64_t>(seed)));
    Begin();
    float *const x = Allocate<float>(100 * kWidth), *const y = Allocate<float>(100 * kWidth);
    float *const other_x = Allocate<float>(100 * kWidth), *const other_y = Allocate<float>(100 * kWidth);
    for (int round = 0; round < 4; ++round) {
      const uint64_t before = Launches();
      for (const int64_t rows : {5, 1, 33}) {
        Compare(x, y, rows);
        Compare(other_x, y, rows);
        Compare(x, other_y, rows);
      }
      EXPECT_EQ(Launches() - before, round == 0 ? 0u : 9u);
    }
    Compare(x, y, 0);
    Compare(x, x, 5);
    Compare(x, x, 5);
    Compare(x, y, 5);
  }
}

TEST_F(RegionOperatorTest, ASteadyCallIsOneLaunchAndAllocatesNothing) {
  float *const x = Upload(Values(5, 1)), *const y = Allocate<float>(5 * kWidth);
  for (int i = 0; i < 3; ++i) ASSERT_OK(Call(*with_, *context_, x, y, 5));
  ASSERT_OK(Call(*without_, *context_, x, y, 5));
  device::UniqueGraph graph;
  ASSERT_OK(device::StreamBeginCapture(stream(), device::CaptureMode::kThreadLocal));
  ASSERT_OK(Call(*without_, *context_, x, y, 5));
  ASSERT_OK(device::StreamEndCapture(stream(), graph.Receive()));
  device::UniqueGraphExec exec;
  ASSERT_OK(device::GraphInstantiate(exec.Receive(), graph.get()));
  ASSERT_OK(device::StreamSynchronize(stream()));

  const int64_t slow = with_->slow_calls();
  const device::sim::Counters before = device::sim::Snapshot();
  int64_t of_launch = 1000, of_call = 1000;  // the least: containers of the device grow now and then
  for (int i = 0; i < 10; ++i) {
    const int64_t start = testing::AllocationCount();
    ASSERT_OK(device::GraphLaunch(exec.get(), stream()));  // allocates in the simulated device
    const int64_t launched = testing::AllocationCount();
    ASSERT_OK(Call(*with_, *context_, x, y, 5));
    of_launch = std::min(of_launch, launched - start);
    of_call = std::min(of_call, testing::AllocationCount() - launched);
  }
  EXPECT_EQ(of_call, of_launch);
  const device::sim::Counters spent = device::sim::Snapshot() - before;
  EXPECT_EQ(spent.graph_launches, 20u);
  EXPECT_EQ(spent.synchronizations() + spent.queries + spent.event_records + spent.event_waits, 0u);
  EXPECT_EQ(spent.device_allocations + spent.async_allocations + spent.host_allocations, 0u);
  EXPECT_EQ(with_->slow_calls(), slow);
}

TEST_F(RegionOperatorTest, AScratchBlockThatMovedIsAnotherCall) {
  float *const x = Upload(Values(5, 1)), *const y = Allocate<float>(5 * kWidth);
  for (int i = 0; i < 3; ++i) Compare(x, y, 5);
  const uint64_t before = Launches();
  {
    const Workspace::Use use(context_->workspace(), 1);
    ASSERT_OK(context_->workspace().Reserve(size_t{8} << 20).status());
  }
  context_->workspace().DropOutgrown();
  Compare(x, y, 5);
  EXPECT_EQ(Launches(), before);
  Compare(x, y, 5);
  EXPECT_EQ(Launches(), before + 1);
  ASSERT_OK(memory_->Shrink());
  for (int i = 0; i < 3; ++i) Compare(x, y, 5);
}

TEST_F(RegionOperatorTest, OutOfMemoryAnywhereIsNoFailedRun) {
  std::string log;
  const LogSink sink([](void* text, LogLevel, std::string_view line) { static_cast<std::string*>(text)->append(line); },
                     &log);
  const memory::LabelScope label("region r");
  float *const x = Upload(Values(5, 1)), *const y = Allocate<float>(5 * kWidth);
  const std::vector<float> expected = Run(*without_, x, y, 5, 1);
  EXPECT_EQ(Run(*with_, x, y, 5, 1), expected);
  for (uint64_t nth = 1; nth <= 8; ++nth) {
    const auto region = Make(true);
    EXPECT_EQ(Run(*region, x, y, 5, 1), expected);
    device::sim::OutOfMemoryAt(nth);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(Run(*region, x, y, 5, 1), expected) << nth;
    device::sim::ClearFaults();
  }
  for (const CallKind kind : {CallKind::kCapture, CallKind::kLaunch, CallKind::kHostWork, CallKind::kGraphInstantiate,
                              CallKind::kGraphLaunch}) {
    const auto region = Make(true);
    EXPECT_EQ(Run(*region, x, y, 5, 1), expected);
    log.clear();
    device::sim::FailCall(kind, 1, OutOfMemory("none left"));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(Run(*region, x, y, 5, 1), expected);
    EXPECT_EQ(log.find("region r is launched kernel by kernel"), 0u) << log;
    device::sim::ClearFaults();
  }
}

TEST_F(RegionOperatorTest, MemoryOfGraphsIsChargedAndGivenBack) {
  float *const x = Upload(Values(5, 1)), *const y = Allocate<float>(5 * kWidth);
  for (int i = 0; i < 3; ++i) Compare(x, y, 5);
  EXPECT_GE(GraphBytes(), 3 * LaunchableGraph::kBytesPerNode);
  with_.reset();
  EXPECT_EQ(GraphBytes(), 0u);
}

TEST_F(RegionOperatorTest, TheOwnersCaptureTakesTheStepsThemselves) {
  float *const x = Upload(Values(5, 1)), *const y = Allocate<float>(5 * kWidth);
  context_->workspace().ExpectCaptures();
  for (int i = 0; i < 3; ++i) Compare(x, y, 5);
  device::UniqueGraph graph;
  ASSERT_OK(device::StreamBeginCapture(stream(), device::CaptureMode::kThreadLocal));
  ASSERT_OK(Call(*with_, *context_, x, y, 5));
  ASSERT_OK(device::StreamEndCapture(stream(), graph.Receive()));
  device::UniqueGraphExec exec;
  ASSERT_OK(device::GraphInstantiate(exec.Receive(), graph.get()));
  Compare(x, y, 5);
  const std::vector<float> values = Values(5, 77);
  ASSERT_OK(device::MemcpyAsync(x, values.data(), values.size() * sizeof(float), stream()));
  ASSERT_OK(device::GraphLaunch(exec.get(), stream()));
  const std::vector<float> replayed = Download(y, values.size());
  EXPECT_EQ(replayed, Run(*without_, x, y, 5, 77));
}

TEST_F(RegionOperatorTest, StreamsOnThreads) {
  std::vector<std::vector<float>> expected;
  float *const x = Allocate<float>(8 * kWidth), *const y = Allocate<float>(8 * kWidth);
  for (int64_t rows = 1; rows <= 4; ++rows) expected.push_back(Run(*without_, x, y, rows, static_cast<int>(rows)));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, in = Allocate<float>(8 * kWidth), out = Allocate<float>(8 * kWidth)] {
      for (int life = 0; life < 3; ++life) {
        device::UniqueStream stream;
        bool ok = device::StreamCreate(stream.Receive()).ok();
        {
          StreamContext context(memory_, stream.get());
          for (int i = 0; i < 24; ++i) {
            const int64_t rows = i % 4 + 1;
            const std::vector<float> values = Values(rows, static_cast<int>(rows));
            const size_t bytes = values.size() * sizeof(float);
            ok = ok && device::MemcpyAsync(in, values.data(), bytes, stream.get()).ok();
            ok = ok && Call(*with_, context, in, out, rows).ok();
            std::vector<float> found(values.size());
            ok = ok && device::MemcpyAsync(found.data(), out, bytes, stream.get()).ok();
            ok = ok && found == expected[static_cast<size_t>(rows - 1)];
          }
        }
        if (!ok) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(GraphBytes(), 0u);
}

}  // namespace
}  // namespace cudaep::graph
