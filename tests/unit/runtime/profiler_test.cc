#include "runtime/profiler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <vector>

#include "../device/device_fixture.h"
#include "limited_memory.h"
#include "runtime/device_graph.h"

namespace cudaep::profile {
namespace {

using device::sim::Mode;

NodeText NodeNamed(std::string name) { return {.name = std::move(name), .op_type = "Op", .is_node = true}; }

// Activities of each node, by name.
std::map<std::string, std::vector<ProfiledActivity>> ByNode(const ProfiledEvents& events) {
  std::map<std::string, std::vector<ProfiledActivity>> found;
  for (const ProfiledActivity& one : events.activities) found[events.nodes[one.node].name].push_back(one);
  return found;
}

class ProfilerTest : public device::testing::DeviceTest {
 protected:
  void TearDown() override {
    DeviceTest::TearDown();
    EXPECT_FALSE(IsOn());
    EXPECT_EQ(HeldScopes(), 0u);
  }

  static void Queue(device::Stream stream, const char* name, std::chrono::microseconds time = {}) {
    ASSERT_TRUE(device::sim::EnqueueHostWork(stream, name, [time] { std::this_thread::sleep_for(time); }, {}, {}).ok());
  }
  void Node(Profiler& profiler, uint64_t event, const std::string& name, int works = 1) {
    profiler.Enter(event);
    for (int i = 0; i < works; ++i) Queue(stream(), name.c_str());
    profiler.Leave(event, NodeNamed(name));
  }
  static ProfiledEvents End(Profiler& profiler) {
    profiler.Close();
    EXPECT_TRUE(device::DeviceSynchronize().ok());
    return profiler.End();
  }
};

TEST_F(ProfilerTest, NodesHaveWhatTheyQueued) {
  Profiler profiler;
  ASSERT_TRUE(profiler.Begin().ok());
  EXPECT_TRUE(IsSimulated());
  const uint64_t begin = profiler.Now();
  profiler.Enter(1);
  Queue(stream(), "outside");
  Node(profiler, 2, "a", 2);
  Node(profiler, 3, "b");
  DescribeCall(7, 8);  // of the event around them
  Node(profiler, 4, "a");
  profiler.Leave(1, {.name = "model_run"});
  Queue(stream(), "nobody's");
  const ProfiledEvents events = End(profiler);
  auto found = ByNode(events);
  ASSERT_EQ(found.size(), 3u);
  ASSERT_EQ(found["a"].size(), 3u);
  EXPECT_EQ(found["b"].size(), 1u);
  ASSERT_EQ(found["model_run"].size(), 1u);
  EXPECT_STREQ(found["model_run"][0].activity.name, "outside");
  EXPECT_EQ(found["model_run"][0].cost_bytes, 7);
  EXPECT_EQ(found["a"][0].call, found["a"][1].call);
  EXPECT_NE(found["a"][0].call, found["a"][2].call);
  uint64_t reached = begin;
  for (const ProfiledActivity& one : events.activities) {
    EXPECT_GE(one.activity.begin_ns, reached);
    reached = one.activity.end_ns;
  }
  EXPECT_LE(reached, profiler.Now());
  EXPECT_EQ(events.dropped + events.lost, 0u);
}

TEST_F(ProfilerTest, NothingIsCalledWhileNobodyProfiles) {
  Profiler profiler;
  ASSERT_TRUE(profiler.Begin().ok());
  EXPECT_TRUE(IsOn());
  End(profiler);
  EXPECT_FALSE(IsOn());
  const CallScope call("Add node 'x'");
  EXPECT_FALSE(call.is_on());
  const ReplayScope replay(std::make_shared<ReplayedNodes>());
  profiler.Enter(1);
  Queue(stream(), "late");
  profiler.Leave(1, NodeNamed("a"));
  EXPECT_TRUE(device::DeviceSynchronize().ok());
  EXPECT_EQ(HeldScopes(), 0u);
  EXPECT_TRUE(profiler.End().activities.empty());
}

TEST_F(ProfilerTest, ThreadsOfOneProfilerKeepTheirNodesApart) {
  device::sim::Configuration configuration;
  configuration.mode = Mode::kEager;
  Start(configuration);
  Profiler profiler;
  ASSERT_TRUE(profiler.Begin().ok());
  constexpr int kThreads = 8, kNodes = 200;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&profiler, thread] {
      device::UniqueStream stream;
      ASSERT_TRUE(device::StreamCreate(stream.Receive()).ok());
      for (int i = 0; i < kNodes; ++i) {
        const auto event = static_cast<uint64_t>(i);  // the same on every thread
        profiler.Enter(event);
        Queue(stream.get(), "work");
        profiler.Leave(event, NodeNamed(std::to_string(thread)));
      }
      ASSERT_TRUE(device::StreamSynchronize(stream.get()).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  const ProfiledEvents events = End(profiler);
  auto found = ByNode(events);
  ASSERT_EQ(found.size(), static_cast<size_t>(kThreads));
  for (const auto& [name, activities] : found) {
    EXPECT_EQ(activities.size(), static_cast<size_t>(kNodes));
    for (const ProfiledActivity& one : activities) EXPECT_EQ(one.activity.stream, activities[0].activity.stream);
  }
}

TEST_F(ProfilerTest, ProfilersAtOnceGetTheirOwn) {
  device::sim::Configuration configuration;
  configuration.mode = Mode::kEager;
  Start(configuration);
  constexpr int kThreads = 6, kRuns = 20;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([thread] {
      device::UniqueStream stream;
      ASSERT_TRUE(device::StreamCreate(stream.Receive()).ok());
      for (int run = 0; run < kRuns; ++run) {
        Profiler profiler;
        ASSERT_TRUE(profiler.Begin().ok());
        const std::string name = std::to_string(thread * kRuns + run);
        for (uint64_t node = 0; node < 5; ++node) {
          profiler.Enter(node);
          Queue(stream.get(), name.c_str());
          profiler.Leave(node, NodeNamed("node"));
        }
        profiler.Close();
        ASSERT_TRUE(device::StreamSynchronize(stream.get()).ok());
        const ProfiledEvents events = profiler.End();
        ASSERT_EQ(events.activities.size(), 5u);
        for (const ProfiledActivity& one : events.activities) EXPECT_EQ(one.activity.name, name);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ProfilerTest, ProfilersAroundEachOtherBothHaveTheWork) {
  Profiler outer, inner;
  ASSERT_TRUE(outer.Begin().ok());
  ASSERT_TRUE(inner.Begin().ok());
  outer.Enter(1);
  inner.Enter(1);
  Queue(stream(), "work");
  inner.Leave(1, NodeNamed("inner"));
  Node(outer, 2, "own");
  EXPECT_EQ(ByNode(End(inner)).size(), 1u);
  EXPECT_EQ(HeldScopes(), 2u);  // the outer one's
  outer.Leave(1, NodeNamed("outer"));
  auto found = ByNode(End(outer));
  ASSERT_EQ(found["outer"].size(), 1u);
  EXPECT_STREQ(found["outer"][0].activity.name, "work");
  EXPECT_EQ(found["own"].size(), 1u);
  EXPECT_EQ(found.size(), 2u);
}

TEST_F(ProfilerTest, WorkInsideAnEndedProfilersEventsIsStillTheOthers) {
  Profiler outer, inner;
  ASSERT_TRUE(outer.Begin().ok());
  ASSERT_TRUE(inner.Begin().ok());
  outer.Enter(1);
  inner.Enter(5);
  EXPECT_TRUE(End(inner).activities.empty());
  Queue(stream(), "late");  // inside an event that nobody leaves
  Node(outer, 2, "own");
  outer.Leave(1, NodeNamed("outer"));
  auto found = ByNode(End(outer));
  EXPECT_EQ(found["outer"].size(), 1u);
  EXPECT_EQ(found["own"].size(), 1u);
}

TEST_F(ProfilerTest, EndingInsideAnEventIsSafe) {
  Profiler first;
  ASSERT_TRUE(first.Begin().ok());
  first.Enter(1);
  Queue(stream(), "early");
  const ProfiledEvents events = End(first);
  ASSERT_EQ(events.activities.size(), 1u);
  EXPECT_EQ(events.nodes[events.activities[0].node].name, "");
  first.Leave(1, NodeNamed("late"));
  // What the thread does next is the next profiler's alone.
  Profiler second;
  ASSERT_TRUE(second.Begin().ok());
  Node(second, 1, "a");
  Queue(stream(), "nobody's");
  auto found = ByNode(End(second));
  EXPECT_EQ(found.size(), 1u);
  EXPECT_EQ(found["a"].size(), 1u);
}

TEST_F(ProfilerTest, AnEventThatIsOpenAtCloseGoesOnToTheNext) {
  Profiler profiler;
  ASSERT_TRUE(profiler.Begin().ok());
  profiler.Enter(1);
  profiler.Enter(2);
  profiler.Close();
  Queue(stream(), "open");
  profiler.Leave(2, NodeNamed("a"));
  Queue(stream(), "after it");
  profiler.Enter(3);
  Queue(stream(), "next");
  profiler.Leave(3, NodeNamed("b"));
  auto found = ByNode(End(profiler));
  EXPECT_EQ(found.size(), 1u);
  ASSERT_EQ(found["a"].size(), 1u);
  EXPECT_STREQ(found["a"][0].activity.name, "open");
}

TEST_F(ProfilerTest, AnEventThatIsNeverLeftHasNoName) {
  Profiler profiler;
  ASSERT_TRUE(profiler.Begin().ok());
  profiler.Enter(1);
  profiler.Close();
  Queue(stream(), "open");
  const ProfiledEvents events = End(profiler);
  ASSERT_EQ(events.activities.size(), 1u);
  EXPECT_EQ(events.nodes[events.activities[0].node].name, "");
}

TEST_F(ProfilerTest, AProfilerBeginsOnce) {
  Profiler profiler;
  ASSERT_TRUE(profiler.Begin().ok());
  EXPECT_EQ(profiler.Begin().code(), StatusCode::kFailedPrecondition);
  Node(profiler, 1, "a");
  EXPECT_EQ(End(profiler).activities.size(), 1u);
  EXPECT_EQ(profiler.Begin().code(), StatusCode::kFailedPrecondition);
}

TEST_F(ProfilerTest, NoActivityIsLost) {
  Profiler profiler;
  ASSERT_TRUE(profiler.Begin().ok());
  constexpr int kNodes = 500, kWorks = 100;  // more than the trace keeps before it tells
  for (int i = 0; i < kNodes; ++i) Node(profiler, static_cast<uint64_t>(i), std::to_string(i), kWorks);
  auto found = ByNode(End(profiler));
  ASSERT_EQ(found.size(), static_cast<size_t>(kNodes));
  for (const auto& [name, activities] : found) EXPECT_EQ(activities.size(), static_cast<size_t>(kWorks)) << name;
}

TEST_F(ProfilerTest, WhatThereIsNoRoomForIsCounted) {
  Profiler profiler;
  ASSERT_TRUE(profiler.Begin().ok());
  constexpr uint64_t kAround = ~uint64_t{0};
  profiler.Enter(kAround);
  for (uint64_t event = 0; event < kMostEvents + 3; ++event) {
    profiler.Enter(event);
    profiler.Leave(event, NodeNamed("a"));
  }
  profiler.Enter(1);
  Queue(stream(), "work");
  profiler.Leave(1, NodeNamed("a"));
  profiler.Leave(kAround, NodeNamed("around"));
  profiler.Enter(2);
  Queue(stream(), "nobody's");
  profiler.Leave(2, NodeNamed("a"));
  const ProfiledEvents events = End(profiler);
  EXPECT_EQ(events.dropped, 6u);
  ASSERT_EQ(events.activities.size(), 1u);
  EXPECT_EQ(events.nodes[events.activities[0].node].name, "around");
}

TEST_F(ProfilerTest, TimesOfNodesAddUpToTheDevicesClock) {
  Profiler profiler;
  ASSERT_TRUE(profiler.Begin().ok());
  device::UniqueEvent begin, end;
  ASSERT_TRUE(device::EventCreate(begin.Receive(), device::EventKind::kTiming).ok());
  ASSERT_TRUE(device::EventCreate(end.Receive(), device::EventKind::kTiming).ok());
  ASSERT_TRUE(device::EventRecord(begin.get(), stream()).ok());
  for (uint64_t i = 0; i < 20; ++i) {
    profiler.Enter(i);
    Queue(stream(), "large", std::chrono::milliseconds(3));
    profiler.Leave(i, NodeNamed(std::to_string(i)));
  }
  ASSERT_TRUE(device::EventRecord(end.get(), stream()).ok());
  const ProfiledEvents events = End(profiler);
  float total_ms = 0;
  ASSERT_TRUE(device::EventElapsedMs(&total_ms, begin.get(), end.get()).ok());
  double sum_ms = 0;
  for (const ProfiledActivity& one : events.activities) {
    sum_ms += static_cast<double>(one.activity.end_ns - one.activity.begin_ns) / 1e6;
  }
  EXPECT_GT(sum_ms, 60);
  EXPECT_NEAR(sum_ms, total_ms, 0.02 * total_ms);
}

// Three nodes, of which the second queues two works and the third a fill.
class ReplayTest : public ProfilerTest {
 protected:
  void Run(DeviceGraph& graph, const DeviceGraph::Setup& setup) {
    ASSERT_TRUE(graph.Begin(setup).ok());
    ASSERT_TRUE(graph.Enter().ok());
    Queue(graph.stream(), "first");
    graph.NodeQueued({.name = "a", .op_type = "A", .cost_bytes = 1});
    Queue(graph.stream(), "second");
    Queue(graph.stream(), "third");
    graph.NodeQueued({.name = "b", .op_type = "B", .cost_bytes = 2});
    ASSERT_TRUE(device::MemsetAsync(memory_, 0, 4, graph.stream()).ok());
    graph.NodeQueued({.name = "c", .op_type = "C"});
    ASSERT_TRUE(graph.End(Status::Ok(), true).ok());
  }

  float* memory_ = nullptr;
};

TEST_F(ReplayTest, ReplaysAreNamedByTheTableOfTheCapture) {
  memory_ = Upload(std::vector<float>(1, 1));
  DeviceGraph graph;
  const DeviceGraph::Setup setup{.memory = testing::LimitedMemory(0), .libraries = {}, .warm_up_runs = 1};
  Run(graph, setup);
  Run(graph, setup);
  ASSERT_TRUE(graph.captured());
  Profiler profiler;
  ASSERT_TRUE(profiler.Begin().ok());
  constexpr uint64_t kReplays = 3;
  for (uint64_t i = 0; i < kReplays; ++i) {
    profiler.Enter(i);
    ASSERT_TRUE(graph.Replay().ok());
    profiler.Leave(i, {.name = "model_run"});
  }
  auto found = ByNode(End(profiler));
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found["a"].size(), kReplays);
  ASSERT_EQ(found["b"].size(), 2 * kReplays);
  EXPECT_EQ(found["b"][0].call, found["b"][1].call);
  EXPECT_NE(found["b"][1].call, found["b"][2].call);
  EXPECT_STREQ(found["b"][0].activity.name, "second");
  EXPECT_STREQ(found["b"][1].activity.name, "third");
  EXPECT_EQ(found["b"][0].cost_bytes, 2);
  ASSERT_EQ(found["c"].size(), kReplays);
  EXPECT_EQ(found["c"][0].activity.kind, lib::ActivityKind::kFill);
  EXPECT_TRUE(found["c"][0].replayed);
}

TEST_F(ReplayTest, TheFirstLaunchOfAProfiledCaptureIsNamedToo) {
  memory_ = Upload(std::vector<float>(1, 1));
  DeviceGraph graph;
  const DeviceGraph::Setup setup{.memory = testing::LimitedMemory(0), .libraries = {}, .warm_up_runs = 1};
  Run(graph, setup);
  Profiler profiler;
  ASSERT_TRUE(profiler.Begin().ok());
  profiler.Enter(1);
  Run(graph, setup);
  profiler.Leave(1, {.name = "model_run"});
  EXPECT_EQ(ByNode(End(profiler)).size(), 3u);
}

TEST(ReplayedNodesTest, AnotherNumberOfActivitiesHasNoNames) {
  ASSERT_TRUE(device::sim::Reset().ok());
  device::UniqueStream stream;
  ASSERT_TRUE(device::StreamCreate(stream.Receive()).ok());
  ASSERT_TRUE(device::StreamBeginCapture(stream.get(), device::CaptureMode::kThreadLocal).ok());
  ReplayedNodes table;
  ASSERT_TRUE(device::sim::EnqueueHostWork(stream.get(), "a", [] {}, {}, {}).ok());
  table.NodeQueued(stream.get(), {.name = "a"});
  table.NodeQueued(stream.get(), {.name = "queues nothing"});
  ASSERT_TRUE(device::sim::EnqueueHostWork(stream.get(), "b", [] {}, {}, {}).ok());
  table.NodeQueued(stream.get(), {.name = "b"});
  device::UniqueGraph graph;
  ASSERT_TRUE(device::StreamEndCapture(stream.get(), graph.Receive()).ok());
  table.End(graph.get());
  lib::Activity first{.begin_ns = 20, .end_ns = 30, .graph_node = 2},
      second{.begin_ns = 10, .end_ns = 15, .graph_node = 3};
  std::vector<lib::Activity*> both{&first, &second};
  EXPECT_EQ(table.Match(both), (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(both[0], &second);  // nodes of a chain start one after the other
  EXPECT_EQ(table.Match(std::span(both).first(1)), std::vector<uint32_t>{ReplayedNodes::kNobody});
}

TEST(ReplayedNodesTest, ATableThatMissedANodeHasNoNames) {
  ASSERT_TRUE(device::sim::Reset().ok());
  device::UniqueStream stream, other;
  ASSERT_TRUE(device::StreamCreate(stream.Receive()).ok() && device::StreamCreate(other.Receive()).ok());
  ASSERT_TRUE(device::StreamBeginCapture(stream.get(), device::CaptureMode::kThreadLocal).ok());
  ReplayedNodes table;
  for (const char* const name : {"a", "b"}) {
    ASSERT_TRUE(device::sim::EnqueueHostWork(stream.get(), name, [] {}, {}, {}).ok());
    table.NodeQueued(*name == 'a' ? other.get() : stream.get(), {.name = name});  // the first is not captured
  }
  device::UniqueGraph graph;
  ASSERT_TRUE(device::StreamEndCapture(stream.get(), graph.Receive()).ok());
  table.End(graph.get());
  lib::Activity a{.begin_ns = 10, .graph_node = 1}, b{.begin_ns = 20, .graph_node = 2};
  std::vector<lib::Activity*> both{&a, &b};
  EXPECT_EQ(table.Match(both), std::vector<uint32_t>(2, ReplayedNodes::kNobody));
}

// Without an order by time the numbers of the trace tell.
TEST(ReplayedNodesTest, BranchesAreToldByTheirNumbers) {
  ASSERT_TRUE(device::sim::Reset().ok());
  device::UniqueStream stream, side;
  device::UniqueEvent fork, join;
  ASSERT_TRUE(device::StreamCreate(stream.Receive()).ok() && device::StreamCreate(side.Receive()).ok());
  for (device::UniqueEvent* event : {&fork, &join}) {
    ASSERT_TRUE(device::EventCreate(event->Receive(), device::EventKind::kOrderOnly).ok());
  }
  const auto queue = [](device::Stream on, const char* name) {
    ASSERT_TRUE(device::sim::EnqueueHostWork(on, name, [] {}, {}, {}).ok());
  };
  ASSERT_TRUE(device::StreamBeginCapture(stream.get(), device::CaptureMode::kThreadLocal).ok());
  ReplayedNodes table;
  queue(stream.get(), "a");
  table.NodeQueued(stream.get(), {.name = "a"});
  ASSERT_TRUE(device::EventRecord(fork.get(), stream.get()).ok());
  ASSERT_TRUE(device::StreamWaitEvent(side.get(), fork.get()).ok());
  queue(side.get(), "b");
  ASSERT_TRUE(device::EventRecord(join.get(), side.get()).ok());
  queue(stream.get(), "b");
  ASSERT_TRUE(device::StreamWaitEvent(stream.get(), join.get()).ok());
  table.NodeQueued(stream.get(), {.name = "b"});
  device::UniqueGraph graph;
  ASSERT_TRUE(device::StreamEndCapture(stream.get(), graph.Receive()).ok());
  table.End(graph.get());
  lib::Activity a{.begin_ns = 10, .graph_node = 1}, b{.begin_ns = 30, .graph_node = 3},
      c{.begin_ns = 20, .graph_node = 4};
  std::vector<lib::Activity*> all{&c, &a, &b};
  EXPECT_EQ(table.Match(all), (std::vector<uint32_t>{0, 1, 1}));
  EXPECT_EQ(all[1], &b);
}

}  // namespace
}  // namespace cudaep::profile
