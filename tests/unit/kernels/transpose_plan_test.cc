// Every way in which a transpose can run, forced, against a loop; a way that cannot be is an error.
#include "kernels/movement/transpose_plan.h"

#include <gtest/gtest.h>

#include <numeric>

#include "../device/device_fixture.h"
#include "core/shape.h"
#include "core/strings.h"
#include "kernels/movement/transpose.h"

namespace cudaep::kernels {
namespace {

constexpr TransposeChoice kRows{TransposeKind::kRows}, kCopy{TransposeKind::kCopy},
    kElementTiles{TransposeKind::kTiles, false}, kPackTiles{TransposeKind::kTiles, true}, kJoin{TransposeKind::kJoin},
    kSplit{TransposeKind::kSplit};

class TransposePlanTest : public device::testing::DeviceTest {
 protected:
  // Elements of `elem_bytes` whose bytes tell where they came from.
  void Check(const Shape& dims, const Shape& perm, size_t elem_bytes, const TransposeChoice& choice) {
    SCOPED_TRACE(StrCat(Dims(dims), " by ", Dims(perm), ", ", elem_bytes, " bytes, kind ",
                        static_cast<int>(choice.kind), choice.packs ? " with packs" : ""));
    const auto plan = PlanTranspose(dims, perm, elem_bytes, &choice);
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    EXPECT_EQ(plan.value().kind, choice.kind);
    EXPECT_EQ(plan.value().tiles.packs, choice.packs);
    std::vector<uint8_t> x(static_cast<size_t>(dims.elems()) * elem_bytes);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
    uint8_t* const y = Allocate<uint8_t>(x.size());
    ASSERT_OK(LaunchTranspose(plan.value(), Upload(x), y, stream()));
    EXPECT_EQ(Download(y, x.size()), Reference(x, dims, perm, elem_bytes));
  }

  static std::vector<uint8_t> Reference(const std::vector<uint8_t>& x, const Shape& dims, const Shape& perm,
                                        size_t elem_bytes) {
    std::vector<uint8_t> y;
    const Shape strides = ContiguousStrides(dims);
    std::vector<int64_t> at(static_cast<size_t>(dims.rank()));  // of the output
    for (int64_t count = dims.elems(); count > 0; --count) {
      int64_t from = 0;
      for (int d = 0; d < dims.rank(); ++d) from += at[static_cast<size_t>(d)] * strides[static_cast<int>(perm[d])];
      const auto* element = x.data() + static_cast<size_t>(from) * elem_bytes;
      y.insert(y.end(), element, element + elem_bytes);
      for (int d = dims.rank(); d-- > 0 && ++at[static_cast<size_t>(d)] == dims[static_cast<int>(perm[d])];) {
        at[static_cast<size_t>(d)] = 0;
      }
    }
    return y;
  }

  static Status Refusal(const Shape& dims, const Shape& perm, size_t elem_bytes, const TransposeChoice& choice) {
    return PlanTranspose(dims, perm, elem_bytes, &choice).status();
  }
};

TEST_F(TransposePlanTest, EveryKindOfEveryElementSize) {
  for (const size_t elem_bytes : {1, 2, 4, 8, 16}) {
    for (const TransposeChoice& choice : {kRows, kElementTiles}) {
      Check({5, 7}, {1, 0}, elem_bytes, choice);          // less than the planner would tile
      Check({300, 3}, {1, 0}, elem_bytes, choice);        // thin
      Check({2, 37, 41}, {0, 2, 1}, elem_bytes, choice);  // batch outside
      Check({37, 3, 41}, {2, 1, 0}, elem_bytes, choice);  // and between
    }
    if (elem_bytes > kMaxPackedElemBytes) continue;
    Check({16, 16}, {1, 0}, elem_bytes, kPackTiles);  // a tile that is mostly empty
    Check({144, 272}, {1, 0}, elem_bytes, kPackTiles);
    Check({3, 64, 48}, {0, 2, 1}, elem_bytes, kPackTiles);
  }
}

TEST_F(TransposePlanTest, FewRowsJoinAndSplit) {
  for (const size_t elem_bytes : {1, 2, 4, 8}) {
    for (const int64_t ways : {2, 3, 4}) {
      Check({ways, 80}, {1, 0}, elem_bytes, kJoin);
      Check({80, ways}, {1, 0}, elem_bytes, kSplit);
      Check({3, ways, 2, 1040}, {0, 2, 3, 1}, elem_bytes, kJoin);  // more than a thread's first item
      Check({3, 2, 1040, ways}, {3, 0, 1, 2}, elem_bytes, kSplit);
    }
  }
  EXPECT_FAILS(Refusal({5, 80}, {1, 0}, 2, kJoin), kInvalidArgument, "no few rows to join or split");
  EXPECT_FAILS(Refusal({80, 2}, {1, 0}, 2, kJoin), kInvalidArgument, "no few rows");
  EXPECT_FAILS(Refusal({2, 81}, {1, 0}, 2, kJoin), kInvalidArgument, "no few rows");
  EXPECT_FAILS(Refusal({81, 2}, {1, 0}, 2, kSplit), kInvalidArgument, "no few rows");
}

TEST_F(TransposePlanTest, WhatStaysIsCopiedOrGathered) {
  Check({3, 5}, {0, 1}, 4, kCopy);
  Check({3, 5}, {0, 1}, 4, kRows);
  Check({3, 5, 7}, {1, 0, 2}, 4, kRows);
  Check({3, 5, 4}, {1, 0, 2}, 4, kElementTiles);  // the innermost run is one wide element
}

TEST_F(TransposePlanTest, WhatCannotBeIsRefused) {
  EXPECT_FAILS(Refusal({3, 5}, {1, 0}, 4, kCopy), kInvalidArgument, "moves elements");
  EXPECT_FAILS(Refusal({3, 5}, {0, 1}, 4, kElementTiles), kInvalidArgument, "no tiles");
  EXPECT_FAILS(Refusal({3, 5, 7}, {1, 0, 2}, 4, kElementTiles), kInvalidArgument, "no tiles");
  EXPECT_FAILS(Refusal({16, 17}, {1, 0}, 4, kPackTiles), kInvalidArgument, "tiles of 17x16 elements of 4 bytes");
  EXPECT_FAILS(Refusal({16, 16}, {1, 0}, 8, kPackTiles), kInvalidArgument, "no packs");
}

TEST_F(TransposePlanTest, ThePlannersOwnChoices) {
  const auto kind = [](const Shape& dims, const Shape& perm) { return PlanTranspose(dims, perm, 4).value().kind; };
  EXPECT_EQ(kind({3, 5}, {0, 1}), TransposeKind::kCopy);
  EXPECT_EQ(kind({32, 32}, {1, 0}), TransposeKind::kRows);   // 4 KB
  EXPECT_EQ(kind({4096, 8}, {1, 0}), TransposeKind::kRows);  // pixels of eight channels
  EXPECT_EQ(kind({256, 256}, {1, 0}), TransposeKind::kTiles);
  EXPECT_EQ(kind({3, 4096}, {1, 0}), TransposeKind::kJoin);
  EXPECT_EQ(kind({4096, 3}, {1, 0}), TransposeKind::kSplit);
  EXPECT_TRUE(PlanTranspose(Shape{256, 256}, Shape{1, 0}, 4).value().tiles.packs);
  EXPECT_FALSE(PlanTranspose(Shape{256, 257}, Shape{1, 0}, 4).value().tiles.packs);
  EXPECT_FALSE(PlanTranspose(Shape{2048, 16}, Shape{1, 0}, 4).value().tiles.packs);  // tiles would be mostly empty
}

}  // namespace
}  // namespace cudaep::kernels
