// How long rows are cut: among the threads of all blocks of a cluster, which the simulated device does not run, and
// among clusters.
#include "kernels/common/long_rows.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "../device/device_fixture.h"
#include "core/checked_math.h"
#include "device/device_info.h"
#include "kernels/common/row_plan.h"
#include "kernels/norm/layer_norm.h"

namespace cudaep::kernels {
namespace {

constexpr unsigned kThreads = kLongThreads, kWarps = kThreads / 32;

// Calls use(place) for each warp of the `blocks` blocks that share a row, with its first lane.
template <class Use>
void ForWarps(unsigned blocks, Use use) {
  for (unsigned rank = 0; rank < blocks; ++rank) {
    for (unsigned warp = 0; warp < kWarps; ++warp) use(LongPlace{rank, blocks, warp, 0});
  }
}

template <int kPacks>
void CheckPieces(int row_packs, unsigned blocks) {
  using Piece = LongPiece<kThreads, kPacks, true>;
  SCOPED_TRACE(::testing::Message() << row_packs << " packs by " << blocks << " blocks, " << kPacks << " a thread");
  const auto size = static_cast<size_t>(row_packs);
  std::vector<int> copied(size), owned(size);  // how often
  int64_t counted = 0;
  ForWarps(blocks, [&](LongPlace place) {
    const Piece warp(row_packs, place);
    const int chunks = std::max(warp.Chunks(), kLongHeld);  // some behind the end, as in the kernels
    int own = 0;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const int start = warp.Start(chunk), end = std::min(row_packs, start + Piece::kPiecePacks);
      for (int pack = start; pack < end; ++pack, ++own) ++copied[static_cast<size_t>(pack)];
      for (place.lane = 0; place.lane < 32; ++place.lane) {
        const Piece piece(row_packs, place);
        const int first = piece.first + chunk * piece.stride;
        // Where the ring has it: pack j of a lane is pack lane + 32 j of what the warp copied.
        ASSERT_EQ(first, start + static_cast<int>(place.lane));
        Piece::ForPacks(piece.Left(chunk), [&](int j) { ++owned.at(static_cast<size_t>(first + j * 32)); });
      }
    }
    ASSERT_EQ(warp.WarpPacks(), own);
    counted += own;
  });
  const auto once = [](const std::vector<int>& times) {
    return std::ranges::all_of(times, [](int count) { return count == 1; });
  };
  EXPECT_TRUE(once(copied));
  EXPECT_TRUE(once(owned));
  EXPECT_EQ(counted, row_packs);
}

TEST(LongRowsTest, TheThreadsOfAClusterHaveEachPackOfARowOnce) {
  for (unsigned blocks = 1; blocks <= kNormCluster; ++blocks) {
    const int round = static_cast<int>(blocks * kThreads) * kLongChunk;
    for (const int packs : {1, 31, 33, 127, 511, 513, 2047, 2049, 7777, round - 1, round, round + 1, 3 * round + 65}) {
      CheckPieces<1>(packs, blocks);
      CheckPieces<2>(packs, blocks);
      CheckPieces<4>(packs, blocks);
    }
  }
}

// Chunks, what is left of a row, and the columns of the last chunk, those behind the row's end among them.
template <int kPack, int kPacks>
void CheckLongest(unsigned blocks) {
  SCOPED_TRACE(::testing::Message() << "packs of " << kPack << ", " << blocks << " blocks, " << kPacks << " a thread");
  constexpr int64_t kRowPacks = kMostRowElems / kPack, kMostInt = std::numeric_limits<int>::max();
  const int64_t stride = int64_t{blocks} * kThreads * kPacks, chunks = CeilDiv(kRowPacks, stride);
  const LongPiece<kThreads, kPacks, true> last(kRowPacks, {blocks - 1, blocks, kWarps - 1, 31});
  ASSERT_EQ(last.Chunks(), chunks);
  const int64_t first = (chunks - 1) * stride + last.first;
  EXPECT_LE((first + (kPacks - 1) * 32 + 1) * kPack - 1, kMostInt);
  EXPECT_EQ(last.Left(static_cast<int>(chunks) - 1), kRowPacks - first);
  EXPECT_GE(last.WarpPacks(), (chunks - 1) * 32 * kPacks);
  EXPECT_LE(last.WarpPacks(), chunks * 32 * kPacks);
}

TEST(LongRowsTest, TheLongestRowIsNumberedIn32Bits) {
  for (unsigned blocks = 1; blocks <= kNormCluster; ++blocks) {
    CheckLongest<8, 1>(blocks);
    CheckLongest<8, 2>(blocks);
    CheckLongest<8, 4>(blocks);
    CheckLongest<4, 4>(blocks);
    CheckLongest<1, 4>(blocks);
  }
}

TEST(LongRowsTest, LongerRowsAreRefused) {
  LayerNormArgs args;
  args.x_type = args.y_type = DataType::kFloat16;
  args.rows = 1;
  args.elems = kMostRowElems + 1;
  EXPECT_FAILS(LaunchLayerNorm(args, {}), kNotSupported, "2147352577 elements, more than 2147352576");
}

// What each block does between two barriers of its cluster: the same rows, so as many barriers.
void CheckTurns(const NormPlan& plan, int64_t rows) {
  const auto blocks = static_cast<unsigned>(plan.blocks);
  ASSERT_EQ(blocks % plan.cluster, 0u);
  std::vector<unsigned> visits(static_cast<size_t>(rows));
  for (unsigned block = 0; block < blocks; ++block) {
    const LongTurns turns(block, blocks, plan.cluster), leader(block - block % plan.cluster, blocks, plan.cluster);
    ASSERT_EQ(turns.first(), leader.first());
    ASSERT_EQ(turns.stride(), leader.stride());
    ASSERT_LT(turns.first(), rows) << "block " << block << " has no row";
    for (int64_t row = turns.first(); row < rows; row += turns.stride()) ++visits[static_cast<size_t>(row)];
  }
  EXPECT_TRUE(std::ranges::all_of(visits, [&](unsigned count) { return count == plan.cluster; }));
}

TEST(LongRowsTest, EachRowIsTheTurnOfAllBlocksOfOneCluster) {
  device::DeviceInfo gpu;
  gpu.major = 9;
  gpu.shared_bytes_per_block = size_t{227} << 10;
  gpu.shared_bytes_per_multiprocessor = size_t{228} << 10;
  unsigned clusters_seen = 0;  // a bit for each size
  for (gpu.multiprocessors = 1; gpu.multiprocessors <= 132; gpu.multiprocessors += 131) {
    for (const int64_t rows : {1, 2, 3, 5, 15, 16, 17, 131, 132, 133, 263, 1023, 1025}) {
      for (const int64_t elems : {65536, 131072, 262144, 1 << 20}) {
        SCOPED_TRACE(::testing::Message()
                     << rows << " rows of " << elems << " on " << gpu.multiprocessors << " multiprocessors");
        const auto plan =
            PlanNorm({DataType::kFloat16, DataType::kFloat16, rows, elems}, gpu, true, {NormPlan::Kind::kLong});
        ASSERT_TRUE(plan.ok()) << plan.status().ToString();
        clusters_seen |= plan.value().cluster;
        CheckTurns(plan.value(), rows);
      }
    }
  }
  EXPECT_EQ(clusters_seen, 1u | 2u | 4u | 8u);
}

}  // namespace
}  // namespace cudaep::kernels
