// What the simulated device makes of mistakes with copies and tensor cores.
#include "device_fixture.h"
#include "vocabulary_kernels.h"

namespace cudaep::device::testing {
namespace {

constexpr int kTiles = 7;

class VocabularyMisuseTest : public DeviceTest {
 protected:
  using Launcher = Status (*)(Stream, const float*, float*, int, CopyMistake);
  // How many of the results are NaN.
  size_t Unwritten(Launcher launch, CopyMistake mistake) {
    float* in = Upload(std::vector<float>(kTiles * kTile, 1));
    float* out = Allocate<float>(kTiles * kTile);
    EXPECT_OK(launch(stream(), in, out, kTiles, mistake));
    const auto results = Download(out, kTiles * kTile);
    return static_cast<size_t>(std::count_if(results.begin(), results.end(), [](float x) { return x != x; }));
  }
  Status Fails(Launcher launch, CopyMistake mistake) {
    Start({});
    float* in = Upload(std::vector<float>(kTiles * kTile, 1));
    float* out = Allocate<float>(kTiles * kTile);
    EXPECT_OK(launch(stream(), in, out, kTiles, mistake));
    return StreamSynchronize(stream());
  }
};

TEST_F(VocabularyMisuseTest, MissingWaitsShowInTheNumbers) {
  EXPECT_EQ(Unwritten(LaunchGroupCopies, CopyMistake::kNone), 0u);
  EXPECT_EQ(Unwritten(LaunchGroupCopies, CopyMistake::kNoWait), size_t{kTiles * kTile});
  // Threads that run later see what earlier ones have waited for in the meantime.
  EXPECT_GE(Unwritten(LaunchGroupCopies, CopyMistake::kTooFewWaits), size_t{kTiles * kTile / 4});
}

TEST_F(VocabularyMisuseTest, BulkCopiesNeedTheirBarrier) {
  EXPECT_OK(Fails(LaunchBulkCopies, CopyMistake::kNone));
  EXPECT_FAILS(Fails(LaunchBulkCopies, CopyMistake::kNoInit), kDeviceLost, "a copy barrier that was not initialised");
  EXPECT_FAILS(Fails(LaunchBulkCopies, CopyMistake::kNoWait), kDeviceLost, "has all and was not waited for");
  EXPECT_FAILS(Fails(LaunchBulkCopies, CopyMistake::kNotWaitedFor), kDeviceLost,
               "the block ends before a bulk copy into its shared memory was waited for");
  EXPECT_FAILS(Fails(LaunchBulkCopies, CopyMistake::kTooFewBytes), kDeviceLost, "more bytes are copied");
  EXPECT_FAILS(Fails(LaunchBulkCopies, CopyMistake::kTooManyBytes), kDeviceLost, "waits in a copy barrier");
  EXPECT_FAILS(Fails(LaunchBulkCopies, CopyMistake::kMisaligned), kDeviceLost, "a bulk copy that is not aligned");
  EXPECT_FAILS(Fails(LaunchGroupCopies, CopyMistake::kMisaligned), kDeviceLost, "not aligned to its size");
  EXPECT_FAILS(Fails(LaunchBarrierCopies, CopyMistake::kNoWait), kDeviceLost, "has all and was not waited for");
  EXPECT_FAILS(Fails(LaunchBarrierCopies, CopyMistake::kNoArrival), kDeviceLost, "waits in a copy barrier");
}

TEST_F(VocabularyMisuseTest, StoresIntoOtherBlocksNeedTheirBarrier) {
  EXPECT_OK(Fails(LaunchClusterStores, CopyMistake::kNone));
  EXPECT_EQ(Unwritten(LaunchClusterStores, CopyMistake::kNone), 0u);
  EXPECT_FAILS(Fails(LaunchClusterStores, CopyMistake::kNoInit), kDeviceLost,
               "a copy barrier that was not initialised");
  EXPECT_FAILS(Fails(LaunchClusterStores, CopyMistake::kNoWait), kDeviceLost, "has all and was not waited for");
  EXPECT_FAILS(Fails(LaunchClusterStores, CopyMistake::kNotWaitedFor), kDeviceLost,
               "the block ends before a bulk copy into its shared memory was waited for");
  // The last one comes when the phase is over.
  EXPECT_FAILS(Fails(LaunchClusterStores, CopyMistake::kTooFewBytes), kDeviceLost, "the block ends before a bulk copy");
  EXPECT_FAILS(Fails(LaunchClusterStores, CopyMistake::kTooManyBytes), kDeviceLost, "waits in a copy barrier");
  EXPECT_FAILS(Fails(LaunchClusterStores, CopyMistake::kMisaligned), kDeviceLost, "an asynchronous store that is not");
}

TEST_F(VocabularyMisuseTest, ProductsTakeAWholeWarp) {
  ASSERT_OK(LaunchMmaOfHalfAWarp(stream(), Allocate<float>(1024)));
  EXPECT_FAILS(StreamSynchronize(stream()), kDeviceLost, "takes all 32 lanes");
}

}  // namespace
}  // namespace cudaep::device::testing
