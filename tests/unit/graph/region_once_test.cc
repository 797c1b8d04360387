// Steps of a region that follow from its dimensions alone: left out of calls whose dimensions come again, with the same
// bits as without.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "../core/allocation_counter.h"
#include "graph/pass/once.h"
#include "region_fixture.h"
#include "transformer_net.h"

namespace cudaep::graph {
namespace {

using device::sim::CallKind;
using device::sim::Mode;
using memory::BudgetKind;

constexpr int kOnce = 5, kAlways = 4;  // launches
// Its table is larger than what is kept.
constexpr int64_t kManyRows = 140'000;

// y = relu(x table + column) - largest, for x of [rows, 8]; column = 0, 1, 2, ..., table = cos(column row) and largest,
// its largest element, follow from the number of rows.
ir::Graph Network() {
  Net net;
  const auto scalar = [&](int64_t number) {
    const int value = net.Ints("number", {number});
    net.graph.value(value).dims.emplace();
    net.graph.value(value).constant.rank = 0;
    return value;
  };
  const int x = net.Input("x", {kRows, {kWidth}});
  const int dims = net.OnHost("Shape", 13, {x}, 1);
  const int rows = net.OnHost("Gather", 13, {dims, scalar(0)}, 0);
  const int positions = net.Open("Range", 11, {scalar(0), rows, scalar(1)}, 1);
  net.graph.value(positions).type = DataType::kInt64;
  const int numbers = net.Open("Cast", 13, {positions}, 1, {{"to", int64_t{1}}});
  const int column = net.Open("Unsqueeze", 13, {numbers, net.Ints("axes", {1})}, 2);
  std::vector<float> frequencies(kWidth);
  for (size_t i = 0; i < frequencies.size(); ++i) frequencies[i] = 1.0f / static_cast<float>(1 + 3 * i);
  const int row = net.Vector("row", DataType::kFloat, frequencies);
  const int table = net.Open("Cos", 7, {net.Open("Mul", 14, {column, row}, 2)}, 2);
  const int largest = net.Open("ReduceMax", 13, {table}, 2, {{"keepdims", int64_t{0}}});
  const int turned = net.Open("Add", 14, {net.Open("Mul", 14, {x, table}, 2), column}, 2);
  net.Output(net.Open("Sub", 14, {net.Open("Relu", 14, {turned}, 2), largest}, 2));
  return std::move(net.graph);
}

class RegionOnceTest : public RegionFixture {
 protected:
  void MakeRegions() override {
    with_ = Make(true, false);
    without_ = Make(false, false);
  }
  std::unique_ptr<ops::PlannedOperator> Make(bool once, bool graphs) {
    Settings settings;
    settings.region_graphs = graphs;
    if (!once) settings.fusion_skip.Add(Fusion::kOnce);
    ir::Graph graph = Network();
    std::vector<FusionNote> notes;
    if (once) MarkOnce(graph, {settings, notes});
    return RegionFixture::Make(std::move(graph), settings);
  }
  std::vector<float> Run(ops::PlannedOperator& region, int64_t rows, int seed = 1) {
    const std::vector<float> values = Values(rows, seed);
    float *const x = Upload(values), *const y = Allocate<float>(values.size());
    EXPECT_OK(Call(region, *context_, x, y, rows));
    std::vector<float> found = Download(y, values.size());
    EXPECT_OK(device::Free(x));
    EXPECT_OK(device::Free(y));
    return found;
  }
  // Kernels of a call.
  int LaunchesOf(ops::PlannedOperator& region, int64_t rows) {
    const uint64_t before = device::sim::Snapshot().launches;
    Run(region, rows);
    return static_cast<int>(device::sim::Snapshot().launches - before);
  }
  size_t WeightBytes() const { return memory_->budget().charged_bytes(BudgetKind::kWeights); }
};

TEST_F(RegionOnceTest, TheSameBits) {
  for (const auto& [mode, seed] :
       {std::pair(Mode::kLate, 1), {Mode::kEager, 1}, {Mode::kRandom, 1}, {Mode::kRandom, 2}, {Mode::kRandom, 3}}) {
    End();
    Start(With(mode, static_cast<uint64_t>(seed)));
    Begin();
    const auto graphs = Make(true, true);
    for (int turn = 0; turn < 4; ++turn) {
      for (const int64_t rows : {5, 1, 33}) {
        const std::vector<float> expected = Run(*without_, rows, turn);
        EXPECT_GT(std::abs(expected.front()), 0);
        EXPECT_EQ(Run(*with_, rows, turn), expected);
        EXPECT_EQ(Run(*graphs, rows, turn), expected);
      }
    }
  }
}

TEST_F(RegionOnceTest, AreLeftOutFromTheSecondCallOfDimensionsOn) {
  for (const int64_t rows : {5, 7}) {
    EXPECT_EQ(LaunchesOf(*without_, rows), kOnce + kAlways);
    EXPECT_EQ(LaunchesOf(*with_, rows), kOnce + kAlways);
    EXPECT_EQ(LaunchesOf(*with_, rows), kOnce + kAlways);  // those that run once, and then the others
    for (int i = 0; i < 3; ++i) EXPECT_EQ(LaunchesOf(*with_, rows), kAlways);
    EXPECT_EQ(LaunchesOf(*without_, rows), kOnce + kAlways);
  }
}

TEST_F(RegionOnceTest, ASteadyCallIsOneLaunchAndAsksNobody) {
  const auto once = Make(true, true), each = Make(false, true);
  float *const x = Upload(Values(5, 1)), *const y = Allocate<float>(5 * kWidth);
  int64_t least[2] = {1000, 1000};  // containers of the device grow now and then
  for (int i = 0; i < 10; ++i) {
    for (const auto* region : {&once, &each}) {
      const int64_t start = testing::AllocationCount();
      const device::sim::Counters before = device::sim::Snapshot();
      ASSERT_OK(Call(**region, *context_, x, y, 5));
      const device::sim::Counters spent = device::sim::Snapshot() - before;
      int64_t& fewest = least[region == &once ? 0 : 1];
      fewest = std::min(fewest, testing::AllocationCount() - start);
      ASSERT_OK(device::StreamSynchronize(stream()));
      if (i < 4) continue;
      EXPECT_EQ(spent.graph_launches, 1u);
      EXPECT_EQ(spent.synchronizations() + spent.queries + spent.event_records + spent.event_waits, 0u);
    }
  }
  EXPECT_LE(least[0], least[1]);  // the simulated device's launch of a graph allocates for its nodes
}

TEST_F(RegionOnceTest, DimensionsThatComeOnceTakeNoMemory) {
  const size_t before = WeightBytes();
  for (int64_t rows = 1; rows <= 20; ++rows) Run(*with_, rows);
  EXPECT_EQ(WeightBytes(), before);
}

TEST_F(RegionOnceTest, LargeResultsAreMadeInEachCallFromKeptOnes) {
  const std::vector<float> expected = Run(*without_, kManyRows);
  const size_t before = WeightBytes();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Run(*with_, kManyRows), expected);
  EXPECT_GE(WeightBytes() - before, kManyRows * sizeof(float));
  EXPECT_LT(WeightBytes() - before, KeptResults::kMost);
  EXPECT_EQ(LaunchesOf(*with_, kManyRows), kAlways + 2);  // Mul and Cos, but neither Range, Cast nor ReduceMax
  EXPECT_EQ(Run(*with_, kManyRows, 2), Run(*without_, kManyRows, 2));
}

TEST_F(RegionOnceTest, MemoryIsChargedAndGivenBack) {
  with_.reset();
  const size_t before = WeightBytes();
  with_ = Make(true, false);
  const size_t constants = WeightBytes();
  for (int i = 0; i < 2; ++i) Run(*with_, 5);
  EXPECT_GT(WeightBytes(), constants);
  EXPECT_OK(device::StreamSynchronize(stream()));
  with_.reset();
  EXPECT_EQ(WeightBytes(), before);
}

TEST_F(RegionOnceTest, ARegionKeepsNoMoreThanItsShare) {
  const size_t before = WeightBytes();
  const int64_t first = 100'000, kinds = 40;  // over 3 MiB each
  for (int64_t i = 0; i < kinds; ++i) {
    float *const x = Upload(Values(first + i, 1)), *const y =
                                                       Allocate<float>(static_cast<size_t>((first + i) * kWidth));
    for (int call = 0; call < 2; ++call) EXPECT_OK(Call(*with_, *context_, x, y, first + i));
    EXPECT_OK(device::StreamSynchronize(stream()));
    EXPECT_OK(device::Free(x));
    EXPECT_OK(device::Free(y));
    if (WeightBytes() - before > KeptResults::kMostOfRegion - KeptResults::kMost && i > 12) break;
  }
  EXPECT_LE(WeightBytes() - before, KeptResults::kMostOfRegion);
  EXPECT_GT(WeightBytes() - before, KeptResults::kMostOfRegion / 2);
}

TEST_F(RegionOnceTest, UnderALimitItIsAShareOfWhatIsLeft) {
  End();
  Begin(size_t{4} << 20);
  const size_t before = WeightBytes();
  const int64_t rows = 20'000;  // 700 KB
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Run(*with_, rows), Run(*without_, rows));
  EXPECT_EQ(WeightBytes(), before);
  EXPECT_EQ(LaunchesOf(*with_, rows), kOnce + kAlways);
  for (int i = 0; i < 2; ++i) Run(*with_, 100);
  EXPECT_EQ(LaunchesOf(*with_, 100), kAlways);
}

TEST_F(RegionOnceTest, AShareIsAskedForAgain) {
  End();
  Begin(size_t{16} << 20);
  const std::shared_ptr<memory::Allocator> weights = memory_->weights();
  Result<void*> taken = weights->Reserve(size_t{14} << 20);
  ASSERT_TRUE(taken.ok());
  for (int i = 0; i < 3; ++i) Run(*with_, 20'000);
  EXPECT_EQ(LaunchesOf(*with_, 20'000), kOnce + kAlways);
  weights->Free(taken.value());
  for (int i = 0; i < 70; ++i) Run(*with_, 20'000);
  EXPECT_EQ(LaunchesOf(*with_, 20'000), kAlways);
  EXPECT_EQ(Run(*with_, 20'000, 3), Run(*without_, 20'000, 3));
}

TEST_F(RegionOnceTest, AFailureAnywhereIsNoFailedRun) {
  const std::vector<float> expected = Run(*without_, 5);
  float *const x = Upload(Values(5, 1)), *const y = Allocate<float>(expected.size());
  const auto third = [&](ops::PlannedOperator& region) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_OK(Call(region, *context_, x, y, 5));
      EXPECT_EQ(Download(y, expected.size()), expected);
    }
    device::sim::ClearFaults();
    EXPECT_OK(Call(region, *context_, x, y, 5));
    EXPECT_EQ(Download(y, expected.size()), expected);
  };
  for (uint64_t nth = 1; nth <= 4; ++nth) {
    const auto region = Make(true, true);
    EXPECT_EQ(Run(*region, 5), expected);
    device::sim::OutOfMemoryAt(nth);
    third(*region);
  }
  for (const CallKind kind : {CallKind::kEventCreate, CallKind::kEventRecord, CallKind::kLaunch}) {
    const auto region = Make(true, false);
    EXPECT_EQ(Run(*region, 5), expected);
    device::sim::FailCall(kind, 1, OutOfMemory("none left"));
    third(*region);
    EXPECT_EQ(LaunchesOf(*region, 5), kOnce + kAlways);
  }
}

// A part of what runs once is kept, not all of that.
TEST_F(RegionOnceTest, PartsAreKeptAlone) {
  Net net;
  const auto part = [&](int value) {
    return net.Open("Slice", 13, {value, net.Ints("b", {32}), net.Ints("e", {33}), net.Ints("a", {0})}, 2);
  };
  const int x = net.Input("x", {kRows, {kWidth}});
  const int dims = net.OnHost("Shape", 13, {x}, 1);
  const int zeros = net.Open("ConstantOfShape", 9, {dims}, 2);
  const int row = part(net.Open("Cos", 7, {zeros}, 2));
  net.Output(net.Open("Add", 14, {x, row}, 2));
  Settings settings;
  settings.region_graphs = false;
  std::vector<FusionNote> notes;
  MarkOnce(net.graph, {settings, notes});
  const auto region = RegionFixture::Make(std::move(net.graph), settings);
  const size_t before = WeightBytes();
  const std::vector<float> first = Run(*region, 1000);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Run(*region, 1000), first);
  EXPECT_GT(WeightBytes(), before);
  EXPECT_LE(WeightBytes() - before, size_t{512});
}

// What a call that is captured adds to the graph, by its launches; with the result of x.
class RegionOnceCaptureTest : public RegionOnceTest {
 protected:
  uint64_t CapturedLaunches() {
    const std::vector<float> expected = Run(*without_, 5, 77);
    float *const x = Upload(Values(5, 77)), *const y = Allocate<float>(expected.size());
    device::UniqueGraph graph;
    EXPECT_OK(device::StreamBeginCapture(stream(), device::CaptureMode::kThreadLocal));
    EXPECT_OK(Call(*with_, *context_, x, y, 5));
    EXPECT_OK(device::StreamEndCapture(stream(), graph.Receive()));
    device::UniqueGraphExec exec;
    EXPECT_OK(device::GraphInstantiate(exec.Receive(), graph.get()));
    const uint64_t before = device::sim::Snapshot().launches;
    EXPECT_OK(device::GraphLaunch(exec.get(), stream()));
    EXPECT_EQ(Download(y, expected.size()), expected);
    return device::sim::Snapshot().launches - before;
  }
};

TEST_F(RegionOnceCaptureTest, TheOwnersHoldsAllSteps) {
  context_->workspace().ExpectCaptures();
  for (int i = 0; i < 3; ++i) Run(*with_, 5);
  EXPECT_EQ(LaunchesOf(*with_, 5), kAlways);
  EXPECT_EQ(CapturedLaunches(), static_cast<uint64_t>(kOnce + kAlways));
}

// A graph of ours is warmed up by one call, which it comes behind.
TEST_F(RegionOnceCaptureTest, OursHoldsWhatIsNotKept) {
  context_->workspace().BelongToGraph();
  EXPECT_EQ(LaunchesOf(*with_, 5), kOnce + kAlways);
  EXPECT_EQ(CapturedLaunches(), static_cast<uint64_t>(kAlways));
  EXPECT_EQ(LaunchesOf(*with_, 5), kAlways);
}

TEST_F(RegionOnceCaptureTest, OursHoldsAllStepsWhereNothingIsKept) {
  context_->workspace().BelongToGraph();
  Run(*without_, 5);  // the workspace
  device::sim::FailCall(CallKind::kEventCreate, 1, Internal("no event"));
  EXPECT_EQ(LaunchesOf(*with_, 5), kOnce + kAlways);
  EXPECT_EQ(CapturedLaunches(), static_cast<uint64_t>(kOnce + kAlways));
}

TEST_F(RegionOnceTest, AnotherStreamWaitsForTheResults) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    End();
    Start(With(Mode::kRandom, seed));
    Begin();
    StreamContext other(memory_, stream(1));
    const std::vector<float> expected = Run(*without_, 33);
    float *const x = Upload(Values(33, 1)), *const y = Allocate<float>(expected.size());
    float* const z = Allocate<float>(expected.size());
    for (int i = 0; i < 2; ++i) EXPECT_OK(Call(*with_, *context_, x, y, 33));  // the second keeps
    EXPECT_OK(Call(*with_, other, x, z, 33));
    EXPECT_EQ(Download(z, expected.size(), stream(1)), expected);
    EXPECT_EQ(Download(y, expected.size()), expected);
  }
}

TEST_F(RegionOnceTest, StreamsOnThreads) {
  std::vector<std::vector<float>> expected;
  for (int64_t rows = 1; rows <= 4; ++rows) expected.push_back(Run(*without_, rows, static_cast<int>(rows)));
  const auto region = Make(true, true);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, in = Allocate<float>(8 * kWidth), out = Allocate<float>(8 * kWidth)] {
      device::UniqueStream stream;
      bool ok = device::StreamCreate(stream.Receive()).ok();
      {
        StreamContext context(memory_, stream.get());
        for (int i = 0; i < 24; ++i) {
          const int64_t rows = i % 4 + 1;
          const std::vector<float> values = Values(rows, static_cast<int>(rows));
          const size_t bytes = values.size() * sizeof(float);
          ok = ok && device::MemcpyAsync(in, values.data(), bytes, stream.get()).ok();
          ok = ok && Call(*region, context, in, out, rows).ok();
          std::vector<float> found(values.size());
          ok = ok && device::MemcpyAsync(found.data(), out, bytes, stream.get()).ok();
          ok = ok && found == expected[static_cast<size_t>(rows - 1)];
        }
      }
      if (!ok) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace cudaep::graph
