#include "core/clock_pair.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace cudaep {
namespace {

// Clocks of one time, the second 1,000 ahead. A read of the second takes 10, but for those that are interrupted.
TEST(ClockPairTest, AnInterruptedReadingDoesNotCount) {
  for (const int interrupted : {0, 1, 7}) {
    int64_t now = 0;
    int reads = 0;
    const auto pair = ReadTogether([&] { return now; },
                                   [&] {
                                     const int64_t read = (now += 5) + 1000;
                                     now += reads++ < interrupted ? 30'000'000 : 5;
                                     return read;
                                   });
    EXPECT_EQ(pair.second - pair.first, 1000) << interrupted;
  }
}

TEST(ClockPairTest, WhereAllAreTheShortestCounts) {
  int64_t now = 0, took = 1000;
  const auto pair = ReadTogether([&] { return now; },
                                 [&] {
                                   took -= 100;
                                   now += took;
                                   return now;
                                 });
  EXPECT_EQ(pair.second - pair.first, 100);  // the last of eight took 200
}

}  // namespace
}  // namespace cudaep
