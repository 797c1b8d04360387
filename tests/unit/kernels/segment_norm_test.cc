// Rows of segments: what the blocks of a team have of a row, which the simulated device runs one after the other, and
// that their moments make the row's.
#include "kernels/norm/segment_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "../device/device_fixture.h"
#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/device_info.h"
#include "kernels/common/long_rows.cuh"
#include "kernels/norm/segment_cut.h"
#include "kernels/reduce/reduce.h"

namespace cudaep::kernels {
namespace {

constexpr unsigned kWarps = kLongThreads / 32;
constexpr int kPack = 4;  // of floats

SegmentCut CutOf(const SegmentedRows& rows) { return SegmentCut::Of(rows.segments, rows.inner, rows.length / kPack); }

// Calls use(row, segment, offset, packs) for each piece that a block of a team has, offset and packs counted in packs.
template <class Use>
void ForPieces(const SegmentCut& cut, int64_t row, unsigned rank, unsigned team, Use use) {
  for (unsigned warp = 0; warp < kWarps; ++warp) {
    const SegmentPiece piece(cut, rank, team, warp);
    for (int chunk = 0; chunk < std::max(piece.Chunks(), kLongHeld); ++chunk) {
      if (piece.PiecePacks(chunk) > 0) use(piece.Segment(chunk), piece.PieceStart(row, chunk), piece.PiecePacks(chunk));
    }
  }
}

TEST(SegmentNormTest, TheWarpsOfATeamHaveEachPackOfItsRowOnce) {
  for (const SegmentedRows& rows : {SegmentedRows{1, 1, 1, 4 * 700}, SegmentedRows{2, 3, 5, 4 * 128},
                                    SegmentedRows{1, 40, 2, 4 * 129}, SegmentedRows{3, 2, 1, 4 * 9000}}) {
    const SegmentCut cut = CutOf(rows);
    for (const unsigned team : {1u, 2u, 3u, 16u}) {
      std::vector<int> owner(static_cast<size_t>(rows.rows() * rows.elems() / kPack), -1);
      for (int64_t row = 0; row < rows.rows(); ++row) {
        for (unsigned rank = 0; rank < team; ++rank) {
          ForPieces(cut, row, rank, team, [&](int segment, int64_t start, int packs) {
            for (int64_t pack = start; pack < start + packs; ++pack) {
              int& of = owner.at(static_cast<size_t>(pack));
              ASSERT_EQ(of, -1) << "pack " << pack;
              of = static_cast<int>(row);
              // [outer, segments, inner, length]
              const int64_t inner = pack / cut.length % rows.inner,
                            in_outer = pack / cut.length / rows.inner % rows.segments,
                            outer = pack / cut.length / rows.inner / rows.segments;
              ASSERT_EQ(in_outer, segment);
              ASSERT_EQ(outer * rows.inner + inner, row);
            }
          });
        }
      }
      EXPECT_EQ(std::ranges::count(owner, -1), 0) << team << " blocks";
    }
  }
}

TEST(SegmentNormTest, TeamsFitTheDeviceAndEachHasARow) {
  device::DeviceInfo gpu;
  gpu.major = 9;
  gpu.shared_bytes_per_block = size_t{227} << 10;
  gpu.shared_bytes_per_multiprocessor = size_t{228} << 10;
  for (gpu.multiprocessors = 1; gpu.multiprocessors <= 300; gpu.multiprocessors += 13) {
    for (const int64_t count : {1, 3, 64, 131, 1000}) {
      for (const int64_t segments : {1, 32, 1000}) {
        for (const int64_t length : {1024, 32768, 1 << 20}) {
          const SegmentedRows rows{1, segments, count, length};
          const auto plan = PlanSegmentNorm(DataType::kFloat, rows, gpu);
          ASSERT_TRUE(plan.has_value());
          EXPECT_EQ(plan->blocks % plan->team, 0u);
          EXPECT_LE(plan->blocks / plan->team, count);
          EXPECT_LE(plan->blocks, static_cast<unsigned>(gpu.multiprocessors));
          EXPECT_LE(plan->team, kMostTeam);
          EXPECT_EQ(plan->needs_tickets(), plan->team > 1);
        }
      }
    }
  }
  gpu.multiprocessors = 132;
  // 4 MB a channel: 8 teams, which hold a row and have room for some of the next.
  const auto images = PlanSegmentNorm(DataType::kFloat, {1, 32, 64, 32768}, gpu);
  EXPECT_EQ(images->team, 16u);
  EXPECT_EQ(images->blocks, 128u);
  EXPECT_EQ(PlanSegmentNorm(DataType::kFloat, {1, 32, 1, 1 << 21}, gpu)->team, 132u);
  EXPECT_EQ(PlanSegmentNorm(DataType::kFloat, {1, 8, 64, 3136}, gpu)->team, 2u);
  EXPECT_EQ(PlanSegmentNorm(DataType::kFloat, {1, 8, 256, 784}, gpu)->team, 1u);
  for (const auto& [type, rows] : {std::pair{DataType::kFloat, SegmentedRows{1, 8, 64, 49}},
                                   {DataType::kFloat, {1, 8, 64, 4 * 63}},
                                   {DataType::kFloat, {1, 8, 64, 4 * 129}},
                                   {DataType::kDouble, {1, 8, 64, 4096}},
                                   {DataType::kFloat, {1, 4, 64, int64_t{1} << 29}},
                                   {DataType::kFloat, {1, 4, 0, 4096}}}) {
    const bool half_empty = rows.length == 4 * 129;  // 129 of 256, so just not
    EXPECT_EQ(PlanSegmentNorm(type, rows, gpu).has_value(), half_empty) << rows.length;
  }
}

TEST(SegmentNormTest, ManyRowsOfWhichABlockHoldsTwoAreSummedAhead) {
  device::DeviceInfo gpu;
  gpu.major = 9;
  gpu.multiprocessors = 132;
  gpu.shared_bytes_per_block = size_t{227} << 10;
  gpu.shared_bytes_per_multiprocessor = size_t{228} << 10;
  const auto ahead = [&](int64_t rows, int64_t kilobytes) {
    const auto plan = PlanSegmentNorm(DataType::kFloat16, {1, 2, rows, kilobytes * 256}, gpu);
    EXPECT_TRUE(!plan->ahead || (plan->team == 1 && plan->slots == kLongSlots)) << rows;
    return plan->ahead ? plan->blocks : 0;
  };
  EXPECT_EQ(ahead(2048, 64), 128u);  // in 16 rounds
  EXPECT_EQ(ahead(133, 96), 67u);
  EXPECT_EQ(ahead(132, 64), 0u);   // a row each: nothing comes next
  EXPECT_EQ(ahead(2048, 98), 0u);  // of two rows, seven slots hold no part of a third
  gpu.shared_bytes_per_block = size_t{100} << 10;
  gpu.shared_bytes_per_multiprocessor = size_t{102} << 10;
  EXPECT_FALSE(PlanSegmentNorm(DataType::kFloat16, {1, 2, 2048, 64 * 256}, gpu)->ahead);
  EXPECT_TRUE(PlanSegmentNorm(DataType::kFloat16, {1, 2, 2048, 32 * 256}, gpu)->ahead);
  gpu.major = 7;  // no barriers in shared memory, which its kernel takes
  EXPECT_FALSE(PlanSegmentNorm(DataType::kFloat16, {1, 2, 2048, 32 * 256}, gpu)->ahead);
}

class SegmentNormAheadTest : public device::testing::DeviceTest {
 protected:
  template <DataType type>
  void Check(const SegmentedRows& rows, unsigned blocks, int slots, RowStatistic statistic, bool in_place,
             double tolerance) {
    using T = CppType<type>;
    SCOPED_TRACE(::testing::Message() << rows.rows() << " rows of " << rows.segments << " x " << rows.length << ", "
                                      << blocks << " blocks, " << slots << " slots");
    std::vector<T> x(static_cast<size_t>(rows.rows() * rows.elems())), scale, bias;
    uint32_t state = 7;
    for (T& value : x) {
      state = state * 1664525u + 1013904223u;
      value = Store<T>(3 + static_cast<float>(state >> 16) / 65536);
    }
    for (int64_t i = 0; i < rows.inner * rows.segments; ++i) {
      scale.push_back(Store<T>(1 + static_cast<float>(i) / 8));
      bias.push_back(Store<T>(static_cast<float>(i % 7)));
    }
    // [outer, segments, inner, length]
    const auto place = [&](int64_t row, int64_t i) {
      const int64_t outer = row / rows.inner, inner = row % rows.inner, segment = i / rows.length;
      return static_cast<size_t>(((outer * rows.segments + segment) * rows.inner + inner) * rows.length +
                                 i % rows.length);
    };
    x[place(rows.rows() - 2, 5)] = Store<T>(std::numeric_limits<float>::quiet_NaN());
    T* const from = Upload(x);
    T* const y = in_place ? from : Allocate<T>(x.size());
    const SegmentNormPlan plan{.team = 1, .blocks = blocks, .slots = slots, .ahead = true};
    ASSERT_OK(LaunchSegmentNorm({.type = type,
                                 .x = from,
                                 .y = y,
                                 .scale = Upload(scale),
                                 .bias = Upload(bias),
                                 .affine_rows = rows.inner,
                                 .affine_segments = true,
                                 .epsilon = 1e-3,
                                 .statistic = statistic,
                                 .rows = rows,
                                 .plan = &plan},
                                stream()));
    const auto result = Download(y, x.size());
    const bool centred = statistic == RowStatistic::kRms;
    for (int64_t row = 0; row < rows.rows(); ++row) {
      const auto at = [&](int64_t i) { return static_cast<double>(Load(x[place(row, i)])); };
      double mean = 0, squares = 0;
      const auto count = static_cast<double>(rows.elems());
      for (int64_t i = 0; i < rows.elems() && !centred; ++i) mean += at(i) / count;
      for (int64_t i = 0; i < rows.elems(); ++i) squares += (at(i) - mean) * (at(i) - mean) / count;
      for (int64_t i = 0; i < rows.elems(); ++i) {
        const auto of = static_cast<size_t>(row % rows.inner * rows.segments + i / rows.length);
        const double wanted = (at(i) - mean) / std::sqrt(squares + 1e-3) * static_cast<double>(Load(scale[of])) +
                              static_cast<double>(Load(bias[of]));
        const auto got = static_cast<double>(Load(result[place(row, i)]));
        if (row == rows.rows() - 2) {
          ASSERT_TRUE(std::isnan(got)) << i;
        } else {
          ASSERT_NEAR(got, wanted, tolerance * std::max(1.0, std::abs(wanted))) << "row " << row << ", element " << i;
        }
      }
    }
  }
};

// One, two and three chunks a warp, the last of them ragged; more rows than moments under way; rings that just do.
TEST_F(SegmentNormAheadTest, RowsAreWhatTheyAreOneByOne) {
  for (const RowStatistic statistic : {RowStatistic::kVariance, RowStatistic::kRms}) {
    Check<DataType::kFloat>({.outer = 11, .length = 4 * 128}, 1, 3, statistic, false, 1e-5);
    Check<DataType::kFloat>({.outer = 3, .segments = 9, .inner = 3, .length = 4 * 200}, 2, 5, statistic, true, 1e-5);
    Check<DataType::kFloat16>({.segments = 5, .inner = 7, .length = 8 * 1031}, 3, 7, statistic, false, 1e-3);
    Check<DataType::kBFloat16>({.outer = 13, .segments = 1, .length = 8 * 2051}, 2, 7, statistic, true, 1e-2);
  }
}

class SegmentNormTeamTest : public device::testing::DeviceTest {};

// Blocks run one after the other here, so none can wait for another: what the others tell lies there before. A block
// tells its own again.
TEST_F(SegmentNormTeamTest, ARowIsNormalisedByTheMomentsOfAllBlocksOfItsTeam) {
  constexpr unsigned kTeam = 3, kTeams = 2;
  const SegmentedRows rows{.outer = 2, .segments = 9, .inner = 2, .length = 4 * 900};  // two a team
  const SegmentCut cut = CutOf(rows);
  const int64_t elems = rows.elems();
  std::vector<float> x(static_cast<size_t>(rows.rows() * elems)), scale, bias, wanted(x.size());
  uint32_t state = 7;
  for (float& value : x) {
    state = state * 1664525u + 1013904223u;
    value = 3 + static_cast<float>(state >> 16) / 65536;
  }
  for (int64_t i = 0; i < rows.inner * rows.segments; ++i) {
    scale.push_back(1 + static_cast<float>(i) / 8);
    bias.push_back(static_cast<float>(i) - 5);
  }
  const SegmentNormPlan plan{.team = kTeam, .blocks = kTeam * kTeams, .slots = 2};
  std::vector<unsigned> tickets(kReduceTickets);
  for (int64_t row = 0; row < rows.rows(); ++row) {
    double count[kTeam] = {}, mean[kTeam] = {}, squares[kTeam] = {}, row_mean = 0, row_squares = 0;
    const auto for_all = [&](auto use) {
      for (unsigned rank = 0; rank < kTeam; ++rank) {
        ForPieces(cut, row, rank, kTeam, [&](int segment, int64_t start, int packs) {
          for (int64_t i = start * kPack; i < (start + packs) * kPack; ++i) use(rank, segment, static_cast<size_t>(i));
        });
      }
    };
    for_all([&](unsigned rank, int, size_t i) {
      ++count[rank];
      mean[rank] += x[i];
      row_mean += x[i] / static_cast<double>(elems);
    });
    for (unsigned rank = 0; rank < kTeam; ++rank) mean[rank] /= count[rank];
    for_all([&](unsigned rank, int, size_t i) {
      squares[rank] += (x[i] - mean[rank]) * (x[i] - mean[rank]);
      row_squares += (x[i] - row_mean) * (x[i] - row_mean) / static_cast<double>(elems);
    });
    for_all([&](unsigned, int segment, size_t i) {
      const auto at = static_cast<size_t>(row % rows.inner * rows.segments + segment);
      wanted[i] = static_cast<float>((x[i] - row_mean) / (std::sqrt(row_squares) + 1e-3) * scale[at] + bias[at]);
    });
    for (unsigned rank = 0; rank < kTeam; ++rank) {
      // A word of two: its value, and the round that the team's row is.
      const auto round = static_cast<unsigned>(row / kTeams);
      unsigned* const words = &tickets[(((row % kTeams * kTeam + rank) * 2) + round % 2) * 3 * 2];
      const double told[] = {count[rank], mean[rank], squares[rank]};
      for (size_t i = 0; i < std::size(told); ++i) {
        words[i * 2] = std::bit_cast<unsigned>(static_cast<float>(told[i]));
        words[i * 2 + 1] = round + 1;
      }
    }
  }
  unsigned* const counters = Upload(tickets);
  float* const y = Allocate<float>(x.size());
  const SegmentNormArgs args{.type = DataType::kFloat,
                             .x = Upload(x),
                             .y = y,
                             .scale = Upload(scale),
                             .bias = Upload(bias),
                             .affine_rows = rows.inner,
                             .affine_segments = true,
                             .epsilon = 1e-3,
                             .statistic = RowStatistic::kDeviation,
                             .rows = rows,
                             .tickets = counters,
                             .plan = &plan};
  ASSERT_OK(LaunchSegmentNorm(args, stream()));
  const auto result = Download(y, x.size());
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(result[i], wanted[i], 1e-4) << i;
  // The last block to leave put them back.
  EXPECT_EQ(std::ranges::count(Download(counters, kReduceTickets), 0u), kReduceTickets);
}

}  // namespace
}  // namespace cudaep::kernels
