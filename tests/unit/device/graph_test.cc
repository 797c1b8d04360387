// Stream capture and graphs.
#include <thread>

#include "device_fixture.h"

namespace cudaep::device::testing {
namespace {

class GraphTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    in_ = Upload(std::vector<float>(32, 1));
    out_ = Allocate<float>(32);
  }
  CaptureState State(Stream of) {
    CaptureState state = CaptureState::kNone;
    EXPECT_TRUE(StreamCaptureState(of, &state).ok());
    return state;
  }
  float* in_ = nullptr;
  float* out_ = nullptr;
};

TEST_F(GraphTest, ReplayRunsRecordedWorkOnNewData) {
  UniqueGraph graph;
  UniqueGraphExec exec;
  ASSERT_OK(StreamBeginCapture(stream(), CaptureMode::kThreadLocal));
  EXPECT_EQ(State(stream()), CaptureState::kActive);
  ASSERT_OK(LaunchAdd<float>(stream(), in_, in_, out_, 32));
  ASSERT_OK(LaunchAdd<float>(stream(), out_, in_, out_, 32));
  ASSERT_OK(StreamEndCapture(stream(), graph.Receive()));
  EXPECT_EQ(State(stream()), CaptureState::kNone);
  size_t nodes = 0;
  ASSERT_OK(GraphNodeCount(graph.get(), &nodes));
  EXPECT_EQ(nodes, 2u);
  EXPECT_EQ(sim::Snapshot().launches, 0u);
  ASSERT_OK(GraphInstantiate(exec.Receive(), graph.get()));
  graph.Reset();
  for (float value : {1.0f, 5.0f}) {
    ASSERT_OK(LaunchFill(stream(), in_, value, 32));
    ASSERT_OK(GraphLaunch(exec.get(), stream()));
    EXPECT_EQ(Download(out_, 32), std::vector<float>(32, 3 * value));
  }
  EXPECT_EQ(sim::Snapshot().launches, 6u);
  EXPECT_EQ(sim::Snapshot().graph_launches, 2u);
}

TEST_F(GraphTest, ForksAndJoinsThroughEventsInAnyOrder) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Start(With(sim::Mode::kRandom, seed));
    float* in = Upload(std::vector<float>(32, 1));
    float *a = Allocate<float>(32), *b = Allocate<float>(32), *c = Allocate<float>(32);
    UniqueEvent fork, join;
    UniqueGraph graph;
    UniqueGraphExec exec;
    ASSERT_OK(EventCreate(fork.Receive(), EventKind::kOrderOnly));
    ASSERT_OK(EventCreate(join.Receive(), EventKind::kOrderOnly));
    ASSERT_OK(StreamBeginCapture(stream(0), CaptureMode::kGlobal));
    ASSERT_OK(LaunchAdd<float>(stream(0), in, in, a, 32));
    ASSERT_OK(EventRecord(fork.get(), stream(0)));
    ASSERT_OK(StreamWaitEvent(stream(1), fork.get()));
    EXPECT_EQ(State(stream(1)), CaptureState::kActive);
    ASSERT_OK(LaunchAdd<float>(stream(1), a, in, b, 32));
    ASSERT_OK(LaunchAdd<float>(stream(0), a, a, c, 32));
    ASSERT_OK(EventRecord(join.get(), stream(1)));
    ASSERT_OK(StreamWaitEvent(stream(0), join.get()));
    ASSERT_OK(LaunchAdd<float>(stream(0), b, c, c, 32));
    ASSERT_OK(StreamEndCapture(stream(0), graph.Receive()));
    EXPECT_EQ(State(stream(1)), CaptureState::kNone);
    ASSERT_OK(GraphInstantiate(exec.Receive(), graph.get()));
    ASSERT_OK(GraphLaunch(exec.get(), stream(2)));
    EXPECT_EQ(Download(c, 32, stream(2)), std::vector<float>(32, 7));
  }
}

TEST_F(GraphTest, AMissingJoinIsFound) {
  UniqueEvent fork;
  Graph graph = nullptr;
  ASSERT_OK(EventCreate(fork.Receive(), EventKind::kOrderOnly));
  ASSERT_OK(StreamBeginCapture(stream(0), CaptureMode::kGlobal));
  ASSERT_OK(EventRecord(fork.get(), stream(0)));
  ASSERT_OK(StreamWaitEvent(stream(1), fork.get()));
  ASSERT_OK(LaunchFill(stream(1), out_, 1, 32));
  EXPECT_FAILS(StreamEndCapture(stream(0), &graph), kFailedPrecondition, "not joined");
  EXPECT_EQ(graph, nullptr);
  ASSERT_OK(StreamBeginCapture(stream(0), CaptureMode::kGlobal));
  ASSERT_OK(EventRecord(fork.get(), stream(0)));
  ASSERT_OK(StreamWaitEvent(stream(1), fork.get()));
  ASSERT_OK(LaunchFill(stream(1), out_, 1, 32));
  EXPECT_FAILS(LaunchAdd<float>(stream(0), out_, in_, in_, 32), kFailedPrecondition, "no event joins their streams");
  EXPECT_FAILS(StreamEndCapture(stream(0), &graph), kFailedPrecondition, "unordered access in a captured graph");
  EXPECT_OK(LaunchFill(stream(0), out_, 1, 32));
}

TEST_F(GraphTest, UpdateKeepsTheExecWhenTheTopologyDiffers) {
  const auto capture = [&](int launches, float value) {
    UniqueGraph graph;
    EXPECT_OK(StreamBeginCapture(stream(), CaptureMode::kRelaxed));
    for (int i = 0; i < launches; ++i) EXPECT_OK(LaunchFill(stream(), out_, value, 32));
    EXPECT_OK(StreamEndCapture(stream(), graph.Receive()));
    return graph;
  };
  UniqueGraphExec exec;
  UniqueGraph first = capture(1, 1), same = capture(1, 2), longer = capture(2, 3);
  ASSERT_OK(GraphInstantiate(exec.Receive(), first.get()));
  ASSERT_OK(GraphExecUpdate(exec.get(), same.get()));
  EXPECT_FAILS(GraphExecUpdate(exec.get(), longer.get()), kFailedPrecondition, "topology differs");
  ASSERT_OK(GraphLaunch(exec.get(), stream()));
  EXPECT_EQ(Download(out_, 32), std::vector<float>(32, 2));
}

TEST_F(GraphTest, IllegalCallsInvalidateTheCapture) {
  UniqueEvent event, outside;
  ASSERT_OK(EventCreate(event.Receive(), EventKind::kOrderOnly));
  ASSERT_OK(EventCreate(outside.Receive(), EventKind::kOrderOnly));
  ASSERT_OK(EventRecord(outside.get(), stream(2)));
  float host[32];
  void* pointer = nullptr;
  const std::function<Status()> calls[] = {
      [&] { return StreamSynchronize(stream()); },
      [&] { return DeviceSynchronize(); },
      [&] { return StreamQuery(stream()); },
      [&] { return EventRecord(event.get(), stream()).ok() ? EventSynchronize(event.get()) : Status::Ok(); },
      [&] { return Malloc(&pointer, 16); },
      [&] { return MallocAsync(&pointer, 16, stream()); },
      [&] { return LaunchFill(nullptr, out_, 1, 1); },
      [&] { return MemcpyAsync(host, out_, 128, stream()); },
      [&] { return StreamWaitEvent(stream(), outside.get()); },
  };
  for (const auto& call : calls) {
    const auto index = &call - calls;
    Graph graph = nullptr;
    ASSERT_OK(StreamBeginCapture(stream(), CaptureMode::kGlobal));
    EXPECT_EQ(call().code(), StatusCode::kFailedPrecondition) << "call " << index;
    EXPECT_EQ(State(stream()), CaptureState::kInvalidated) << "call " << index;
    EXPECT_EQ(LaunchFill(stream(), out_, 1, 32).code(), StatusCode::kFailedPrecondition) << "call " << index;
    EXPECT_EQ(StreamEndCapture(stream(), &graph).code(), StatusCode::kFailedPrecondition) << "call " << index;
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(State(stream()), CaptureState::kNone) << "call " << index;
  }
  EXPECT_OK(LaunchFill(stream(), out_, 1, 32));
  EXPECT_OK(StreamSynchronize(stream()));
}

TEST_F(GraphTest, CaptureModesDecideWhoMayAllocate) {
  const auto allocate = [] {
    UniqueDeviceMemory memory;
    return Malloc(memory.Receive(), 16);
  };
  for (auto [mode, here, elsewhere] :
       {std::tuple(CaptureMode::kGlobal, false, false), std::tuple(CaptureMode::kThreadLocal, false, true),
        std::tuple(CaptureMode::kRelaxed, true, true)}) {
    for (bool own : {false, true}) {
      UniqueGraph graph;
      ASSERT_OK(StreamBeginCapture(stream(), mode));
      Status status;
      if (own) {
        status = allocate();
      } else {
        std::thread([&] { status = allocate(); }).join();
      }
      EXPECT_EQ(status.ok(), own ? here : elsewhere) << static_cast<int>(mode);
      EXPECT_EQ(StreamEndCapture(stream(), graph.Receive()).ok(), own ? here : elsewhere);
    }
  }
  CaptureMode mode = CaptureMode::kRelaxed;
  Graph graph = nullptr;
  ASSERT_OK(StreamBeginCapture(stream(), CaptureMode::kGlobal));
  ASSERT_OK(ThreadExchangeCaptureMode(&mode));
  EXPECT_EQ(mode, CaptureMode::kGlobal);
  EXPECT_OK(allocate());  // a relaxed thread may, also during its own capture
  ASSERT_OK(ThreadExchangeCaptureMode(&mode));
  EXPECT_OK(StreamEndCapture(stream(), &graph));
}

TEST_F(GraphTest, NobodyWaitsForADeviceThatCaptures) {
  for (const CaptureMode mode : {CaptureMode::kGlobal, CaptureMode::kThreadLocal, CaptureMode::kRelaxed}) {
    UniqueGraph graph;
    ASSERT_OK(StreamBeginCapture(stream(), mode));
    Status status;
    std::thread([&] { status = DeviceSynchronize(); }).join();
    EXPECT_FAILS(status, kFailedPrecondition, "captur");
    EXPECT_FAILS(StreamEndCapture(stream(), graph.Receive()), kFailedPrecondition, "device");
  }
  EXPECT_OK(DeviceSynchronize());
}

TEST_F(GraphTest, ReplayAfterFreeIsFound) {
  UniqueGraph graph;
  UniqueGraphExec exec;
  ASSERT_OK(StreamBeginCapture(stream(), CaptureMode::kGlobal));
  ASSERT_OK(LaunchFill(stream(), out_, 1, 32));
  ASSERT_OK(StreamEndCapture(stream(), graph.Receive()));
  ASSERT_OK(GraphInstantiate(exec.Receive(), graph.get()));
  ASSERT_OK(Free(out_));
  EXPECT_FAILS(GraphLaunch(exec.get(), stream()), kDeviceError, "use after free");
}

TEST_F(GraphTest, CallbacksCopiesAndLibraryWorkReplay) {
  int calls = 0;
  float* pinned = AllocatePinned<float>(32);
  UniqueGraph graph;
  UniqueGraphExec exec;
  const void* reads[] = {in_};
  void* writes[] = {out_};
  ASSERT_OK(StreamBeginCapture(stream(), CaptureMode::kGlobal));
  ASSERT_OK(MemsetAsync(out_, 0, 128, stream()));
  ASSERT_OK(sim::EnqueueHostWork(
      stream(), "Gemm", [in = in_, out = out_] { out[0] += in[0]; }, reads, writes));
  ASSERT_OK(MemcpyAsync(pinned, out_, 128, stream()));
  ASSERT_OK(LaunchHostFunc(
      stream(), [](void* count) { ++*static_cast<int*>(count); }, &calls));
  ASSERT_OK(StreamEndCapture(stream(), graph.Receive()));
  ASSERT_OK(GraphInstantiate(exec.Receive(), graph.get()));
  for (int i = 0; i < 3; ++i) ASSERT_OK(GraphLaunch(exec.get(), stream()));
  ASSERT_OK(StreamSynchronize(stream()));
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(pinned[0], 1);
  EXPECT_EQ(pinned[1], 0);
}

}  // namespace
}  // namespace cudaep::device::testing
