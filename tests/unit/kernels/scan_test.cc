#include "kernels/scan/scan.h"

#include <gtest/gtest.h>

#include "../device/device_fixture.h"

namespace cudaep::kernels {
namespace {

struct Line {
  int64_t outer, length, inner, segments;
};

// Every number of segments gives what a loop does, bit for bit: integers wrap around.
class ScanKernelTest : public device::testing::DeviceTest, public ::testing::WithParamInterface<Line> {};

std::vector<uint64_t> Expected(const std::vector<uint64_t>& x, const Scan& scan) {
  std::vector<uint64_t> y(x.size());
  for (int64_t line = 0; line < scan.outer * scan.inner; ++line) {
    const int64_t base = line / scan.inner * scan.length * scan.inner + line % scan.inner;
    uint64_t running = scan.op == ScanOp::kSum ? 0 : 1;
    for (int64_t p = 0; p < scan.length; ++p) {
      const int64_t i = scan.reverse != 0 ? scan.length - 1 - p : p;
      const auto at = static_cast<size_t>(base + i * scan.inner);
      const uint64_t next = scan.op == ScanOp::kSum ? running + x[at] : running * x[at];
      y[at] = scan.exclusive != 0 ? running : next;
      running = next;
    }
  }
  return y;
}

TEST_P(ScanKernelTest, SegmentsDoNotShow) {
  const auto [outer, length, inner, segments] = GetParam();
  std::vector<uint64_t> x(static_cast<size_t>(outer * length * inner));
  uint64_t state = 12345;
  for (uint64_t& value : x) value = (state = state * 6364136223846793005u + 1442695040888963407u) | 1;
  for (const ScanOp op : {ScanOp::kSum, ScanOp::kProduct}) {
    for (int64_t ways = 0; ways < 4; ++ways) {
      const Scan scan = PlanScan({.op = op,
                                  .type = DataType::kUint64,
                                  .outer = outer,
                                  .length = length,
                                  .inner = inner,
                                  .exclusive = ways % 2,
                                  .reverse = ways / 2},
                                 8, segments);
      EXPECT_EQ(scan.segments, segments);
      auto* const y = Allocate<uint64_t>(x.size());
      void* const scratch = Allocate<char>(scan.scratch_bytes() + 1);
      EXPECT_OK(LaunchScan(scan, Upload(x), y, scratch, stream()));
      EXPECT_EQ(Download(y, x.size()), Expected(x, scan)) << "way " << ways;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Lines, ScanKernelTest,
                         ::testing::Values(Line{2, 300, 1, 1}, Line{2, 1300, 1, 1}, Line{2, 1300, 1, 3},
                                           Line{1, 4096, 1, 8}, Line{1, 4097, 1, 9}, Line{2, 100, 3, 1},
                                           Line{2, 100, 3, 7}, Line{1, 5, 2, 5}));

}  // namespace
}  // namespace cudaep::kernels
