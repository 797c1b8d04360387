// CUDA's rules of which code runs on which GPU, and that PTX below 9.0 does not count from 9.0 on.
#include "device/architectures.h"

#include <gtest/gtest.h>

namespace cudaep::device {
namespace {

struct Row {
  const char* architectures;
  int major, minor;
  bool runs;
};

class Architectures : public ::testing::TestWithParam<Row> {};

TEST_P(Architectures, RunOn) {
  const Row& row = GetParam();
  EXPECT_EQ(RunsOn(row.architectures, row.major, row.minor), row.runs)
      << row.architectures << " on " << row.major << "." << row.minor;
}

constexpr const char* kRelease = "75-real,80-real,86-real,89-real,90-real,100-real,120";

INSTANTIATE_TEST_SUITE_P(
    Rules, Architectures,
    ::testing::Values(Row{"90-real", 9, 0, true}, Row{"90-real", 8, 9, false}, Row{"90-real", 10, 0, false},
                      Row{"80-real", 8, 6, true}, Row{"86-real", 8, 0, false}, Row{"90", 10, 0, true},
                      Row{"90-virtual", 12, 1, true}, Row{"90-virtual", 8, 9, false}, Row{"90a-real", 9, 0, true},
                      Row{"90a", 10, 0, false}, Row{"100a-real", 10, 3, false}, Row{"100f-real", 10, 3, true},
                      Row{"100f", 12, 0, false}, Row{kRelease, 7, 0, false}, Row{kRelease, 7, 5, true},
                      Row{kRelease, 8, 7, true}, Row{kRelease, 10, 3, true}, Row{kRelease, 11, 0, false},
                      Row{kRelease, 12, 1, true}, Row{kRelease, 13, 0, true}, Row{"native", 7, 0, true},
                      Row{"80", 8, 9, true}, Row{"75", 8, 0, true}, Row{"80", 9, 0, false},
                      Row{"89-virtual", 12, 0, false}, Row{"80,90-real", 10, 0, false}, Row{"80,90", 10, 0, true},
                      Row{"", 9, 0, false}));

}  // namespace
}  // namespace cudaep::device
