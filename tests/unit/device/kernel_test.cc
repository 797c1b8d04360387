// Numerics of kernels on the simulated device, in every order of threads and blocks.
#include <cmath>

#include "device/device_info.h"
#include "device_fixture.h"

namespace cudaep::device::testing {
namespace {

class KernelTest : public DeviceTest, public ::testing::WithParamInterface<sim::ThreadOrder> {
 protected:
  void SetUp() override {
    sim::Configuration configuration;
    configuration.thread_order = GetParam();
    Start(configuration);
  }

  template <class T>
  void CheckAdd(int64_t count) {
    std::vector<T> a(static_cast<size_t>(count)), b(a.size());
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] = Store<T>(static_cast<ComputeType<T>>(i % 37));
      b[i] = Store<T>(static_cast<ComputeType<T>>(i % 11) / 2);
    }
    T* out = Allocate<T>(a.size());
    ASSERT_OK(LaunchAdd<T>(stream(), Upload(a), Upload(b), out, count));
    const std::vector<T> sum = Download(out, a.size());
    for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(Load(sum[i]), Load(a[i]) + Load(b[i])) << "element " << i;
  }
};

TEST_P(KernelTest, AddsEveryTypeAndSize) {
  for (int64_t count : {1, 3, 4, 7, 8, 255, 1023, 4099}) {
    CheckAdd<float>(count);
    CheckAdd<double>(count);
    CheckAdd<Half>(count);
    CheckAdd<BFloat16>(count);
  }
}

TEST_P(KernelTest, SoftmaxReducesThroughShufflesAndSharedMemory) {
  for (int columns : {1, 31, 100, 1025}) {
    for (int threads : {32, 96, 256, 1024}) {
      constexpr int kRows = 3;
      std::vector<float> in(static_cast<size_t>(kRows * columns));
      for (size_t i = 0; i < in.size(); ++i) in[i] = std::sin(static_cast<float>(i)) * 4;
      float* out = Allocate<float>(in.size());
      ASSERT_OK(LaunchSoftmax(stream(), Upload(in), out, kRows, columns, threads));
      const std::vector<float> result = Download(out, in.size());
      for (int row = 0; row < kRows; ++row) {
        double sum = 0;
        for (int i = 0; i < columns; ++i) sum += std::exp(static_cast<double>(in[row * columns + i]));
        for (int i = 0; i < columns; ++i) {
          const double expected = std::exp(static_cast<double>(in[row * columns + i])) / sum;
          ASSERT_NEAR(result[row * columns + i], expected, 1e-5 * expected + 1e-9) << columns << " " << threads;
        }
      }
    }
  }
}

TEST_P(KernelTest, TransposesThroughASharedTile) {
  for (int rows : {1, 31, 33, 100}) {
    for (int columns : {1, 32, 65}) {
      std::vector<float> in(static_cast<size_t>(rows * columns));
      for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
      float* out = Allocate<float>(in.size());
      ASSERT_OK(LaunchTranspose(stream(), Upload(in), out, rows, columns));
      const std::vector<float> result = Download(out, in.size());
      for (int r = 0; r < rows; ++r) {
        for (int c = 0; c < columns; ++c) ASSERT_EQ(result[c * rows + r], in[r * columns + c]);
      }
    }
  }
}

TEST_P(KernelTest, AtomicsCountEverything) {
  constexpr int kCount = 5000, kBuckets = 7;
  std::vector<int> values(kCount);
  for (int i = 0; i < kCount; ++i) values[i] = (i * 7919) % 10007;
  int* counts = Upload(std::vector<int>(kBuckets, 0));
  float* total = Upload(std::vector<float>{0});
  int* maximum = Upload(std::vector<int>{-1});
  ASSERT_OK(LaunchHistogram(stream(), Upload(values), kCount, counts, kBuckets, total, maximum));
  std::vector<int> expected(kBuckets, 0);
  for (int value : values) ++expected[value % kBuckets];
  EXPECT_EQ(Download(counts, kBuckets), expected);
  EXPECT_EQ(Download(total, 1)[0], kCount);
  EXPECT_EQ(Download(maximum, 1)[0], *std::max_element(values.begin(), values.end()));
}

TEST_P(KernelTest, ExitedThreadsNoLongerCountAtBarriers) {
  for (int active : {1, 5, 32, 33, 100, 128}) {
    constexpr int kThreads = 128;
    int* out = Allocate<int>(kThreads);
    ASSERT_OK(LaunchEarlyExit(stream(), out, kThreads, active));
    const std::vector<int> result = Download(out, kThreads);
    for (int i = 0; i < active; ++i) {
      const int first = i / 32 * 32, lanes = std::min(32, active - first);
      ASSERT_EQ(result[i], lanes / 2 + 100 * first) << "thread " << i << " of " << active;
    }
  }
}

TEST_P(KernelTest, FindsPointersInsideStructs) {
  const std::vector<float> in{1, 2, 3};
  float* out = Allocate<float>(3);
  ASSERT_OK(LaunchDouble(stream(), {Upload(in), out, 3}));
  EXPECT_EQ(Download(out, 3), (std::vector<float>{2, 4, 6}));
}

INSTANTIATE_TEST_SUITE_P(Orders, KernelTest,
                         ::testing::Values(sim::ThreadOrder::kForward, sim::ThreadOrder::kReversed,
                                           sim::ThreadOrder::kRandom),
                         [](const auto& info) {
                           return std::string(info.param == sim::ThreadOrder::kForward    ? "Forward"
                                              : info.param == sim::ThreadOrder::kReversed ? "Reversed"
                                                                                          : "Random");
                         });

using LaunchTest = DeviceTest;

TEST_F(LaunchTest, RefusesImpossibleConfigurations) {
  float* out = Allocate<float>(1);
  EXPECT_FAILS(LaunchBadBlock(stream(), out, 1025), kInvalidArgument, "(1025,1,1) threads");
  EXPECT_FAILS(LaunchBadBlock(stream(), out, 0), kInvalidArgument, "cannot be launched");
  EXPECT_FAILS(LaunchFill(stream(), out, 0, 0), kInvalidArgument, "grid of (0,1,1)");
  EXPECT_FAILS(LaunchSoftmax(stream(), out, out, 1, 1 << 20, 32), kInvalidArgument, "dynamic shared memory");
  EXPECT_OK(StreamSynchronize(stream()));
}

TEST_F(LaunchTest, SaysThatItIsSimulated) {
  int count = 0;
  ASSERT_OK(GetDeviceCount(&count));
  EXPECT_EQ(count, 1);
  const auto info = GetDeviceInfo(0);
  ASSERT_OK(info.status());
  EXPECT_TRUE(info.value()->simulated);
  EXPECT_EQ(info.value()->name, "Simulated CUDA device");
  EXPECT_STREQ(BackendName(), "simulated");
  EXPECT_FALSE(GetDeviceInfo(1).ok());
}

}  // namespace
}  // namespace cudaep::device::testing
