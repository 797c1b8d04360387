// Launches that depend on their predecessors, and what an earlier block left in shared memory: a tidy simulated device
// would hide mistakes with them.
#include <cmath>

#include "device_fixture.h"

namespace cudaep::device::testing {
namespace {

constexpr int kCount = 300;

class DependenceTest : public DeviceTest {};

TEST_F(DependenceTest, ReadingBeforeTheWaitFindsNothing) {
  for (const auto mode : {sim::Mode::kLate, sim::Mode::kRandom}) {
    Start(With(mode, 7));
    float* first = Allocate<float>(kCount);
    float* second = Allocate<float>(kCount);
    float* third = Allocate<float>(kCount);
    ASSERT_OK(LaunchFill(stream(), first, 3, kCount));
    ASSERT_OK(LaunchDependent(stream(), first, second, kCount, Dependence::kWaits));
    ASSERT_OK(LaunchDependent(stream(), second, third, kCount, Dependence::kWaits));
    EXPECT_EQ(Download(third, kCount), std::vector<float>(kCount, 3));
  }
  Start({});
  float* in = Allocate<float>(kCount);
  float* out = Allocate<float>(kCount);
  ASSERT_OK(LaunchFill(stream(), in, 3, kCount));
  ASSERT_OK(LaunchDependent(stream(), in, out, kCount, Dependence::kReadsFirst));
  const std::vector<float> result = Download(out, kCount);
  EXPECT_TRUE(std::isnan(result[0])) << result[0];
  // What no kernel that runs writes may be read at any time.
  ASSERT_OK(LaunchDependent(stream(), in, out, kCount, Dependence::kReadsFirst));
  EXPECT_EQ(Download(out, kCount), std::vector<float>(kCount, 3));
}

TEST_F(DependenceTest, InGraphsToo) {
  float* in = Upload(std::vector<float>(kCount, 1));
  float* middle = Allocate<float>(kCount);
  float* out = Allocate<float>(kCount);
  UniqueGraph graph;
  UniqueGraphExec exec;
  ASSERT_OK(StreamBeginCapture(stream(), CaptureMode::kThreadLocal));
  ASSERT_OK(LaunchAdd<float>(stream(), in, in, middle, kCount));
  ASSERT_OK(LaunchDependent(stream(), middle, out, kCount, Dependence::kReadsFirst));
  ASSERT_OK(StreamEndCapture(stream(), graph.Receive()));
  ASSERT_OK(GraphInstantiate(exec.Receive(), graph.get()));
  ASSERT_OK(GraphLaunch(exec.get(), stream()));
  EXPECT_TRUE(std::isnan(Download(out, kCount)[0]));
}

TEST_F(DependenceTest, EveryBlockWaits) {
  float* in = Upload(std::vector<float>(kCount, 1));
  float* out = Allocate<float>(kCount);
  ASSERT_OK(LaunchDependent(stream(), in, out, kCount, Dependence::kNeverWaits));
  EXPECT_FAILS(StreamSynchronize(stream()), kDeviceLost, "Dependent(float const*, float*, int");
  EXPECT_FAILS(StreamSynchronize(stream()), kDeviceLost, "block (0,0,0) ends without GridDependencyWait()");
}

TEST_F(DependenceTest, AFailureOfThePredecessorLeavesNothingBehind) {
  float* out = Allocate<float>(kCount);
  ASSERT_OK(LaunchWrongMask(stream(), out));
  ASSERT_OK(LaunchDependent(stream(), out, out, kCount, Dependence::kWaits));
  EXPECT_FAILS(StreamSynchronize(stream()), kDeviceLost, "WrongMask");
  Start({});
  out = Upload(std::vector<float>(kCount, 4));
  float* copy = Allocate<float>(kCount);
  ASSERT_OK(LaunchDependent(stream(), out, copy, kCount, Dependence::kWaits));
  EXPECT_EQ(Download(copy, kCount), std::vector<float>(kCount, 4));
}

// Also where an earlier launch filled a line of it with what fresh memory holds elsewhere.
TEST_F(DependenceTest, SharedMemoryThatWasSetBeforeTheWaitIsTheBlocksOwn) {
  int* out = Allocate<int>(2 * 64);
  ASSERT_OK(LaunchEarlyShared(stream(), out, -1));
  ASSERT_EQ(Download(out, 64), std::vector<int>(64, -1));
  for (const int value : {5, 7}) {
    ASSERT_OK(LaunchEarlyShared(stream(), out, value));
    ASSERT_OK(LaunchEarlyShared(stream(), out + 64, value + 1));
    ASSERT_EQ(Download(out, 64), std::vector<int>(64, value));
    ASSERT_EQ(Download(out + 64, 64), std::vector<int>(64, value + 1));
  }
}

// Where it lies may depend on what a launch is given, and not on its shape alone.
TEST_F(DependenceTest, SharedMemoryThatOnlySomeLaunchesSetBeforeTheWaitIsTheBlocksOwn) {
  int* out = Allocate<int>(2 * 64);
  for (const int part : {0, 2, 1}) {
    ASSERT_OK(LaunchEarlyShared(stream(), out, 5, part));
    ASSERT_OK(LaunchEarlyShared(stream(), out + 64, 6, part));
    ASSERT_EQ(Download(out, 64), std::vector<int>(64, 5));
    ASSERT_EQ(Download(out + 64, 64), std::vector<int>(64, 6));
  }
}

TEST_F(DeviceTest, SharedMemoryKeepsNothingFromBlockToBlock) {
  constexpr int kBlocks = 3;
  float* out = Allocate<float>(kBlocks * 64);
  for (const bool dynamic : {false, true}) {
    for (int round = 0; round < 2; ++round) {
      ASSERT_OK(LaunchStaleShared(stream(), out, dynamic, false, kBlocks));
      for (float value : Download(out, kBlocks * 64)) ASSERT_TRUE(std::isnan(value)) << dynamic << " " << value;
      ASSERT_OK(LaunchStaleShared(stream(), out, dynamic, true, kBlocks));
      ASSERT_EQ(Download(out, kBlocks * 64), std::vector<float>(kBlocks * 64, 0));
    }
  }
}

}  // namespace
}  // namespace cudaep::device::testing
