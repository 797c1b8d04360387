// Which way attention runs; a way that cannot be is an error.
#include "attention_fixture.h"
#include "core/checked_math.h"

namespace cudaep::kernels {
namespace {

using AttentionPlanTest = AttentionTest;

TEST_F(AttentionPlanTest, StepsOfADecoderAreFewQueries) {
  const auto few = [&](const AttentionProblem& p) { return PlanAttention(p, info_).value().few_queries; };
  EXPECT_TRUE(few(Problem(DataType::kFloat16, 32, 8, 1, 1025, 64, 64)));
  EXPECT_TRUE(few(Problem(DataType::kBFloat16, 32, 8, 4, 1025, 128, 128)));
  EXPECT_FALSE(few(Problem(DataType::kFloat16, 32, 8, 5, 1025, 64, 64)));
  EXPECT_FALSE(few(Problem(DataType::kFloat16, 32, 8, 1, 1025, 64, 128)));
  EXPECT_FALSE(few(Problem(DataType::kFloat16, 32, 8, 1, 1025, 80, 80)));
  EXPECT_FALSE(few(Problem(DataType::kFloat, 32, 8, 1, 1025, 64, 64)));
}

TEST_F(AttentionPlanTest, ShortSequencesHaveWholeRows) {
  const auto warps = [&](const AttentionProblem& p, const AttentionChoice& choice = {}) {
    return PlanAttention(p, info_, choice).value().whole_rows_warps;
  };
  EXPECT_EQ(warps(Problem(DataType::kFloat16, 4, 4, 128, 128, 64, 64)), 4);
  EXPECT_EQ(warps(Problem(DataType::kBFloat16, 4, 4, 20, 20, 64, 64)), 2);
  EXPECT_EQ(warps(Problem(DataType::kFloat16, 4, 4, 128, 129, 64, 64)), 0);
  EXPECT_EQ(warps(Problem(DataType::kFloat16, 4, 4, 128, 128, 72, 64)), 0);
  EXPECT_EQ(warps(Problem(DataType::kFloat, 4, 4, 128, 128, 64, 64)), 0);
  EXPECT_EQ(warps(Problem(DataType::kFloat16, 4, 2, 1, 128, 64, 64)), 0);  // a group's heads are packed
  EXPECT_EQ(warps(Problem(DataType::kFloat16, 4, 4, 128, 128, 64, 64), {.warps = 2}), 0);
}

TEST_F(AttentionPlanTest, WarpgroupsHaveHeadsWithFewKeys) {
  const auto heads = [&](const AttentionProblem& p, const AttentionChoice& choice = {}) {
    return PlanAttention(p, info_, choice).value().warpgroup_heads;
  };
  const auto problem = [&](int64_t queries, int64_t keys, int64_t size = 64, DataType type = DataType::kFloat16) {
    return Problem(type, 4, 4, queries, keys, size, size);
  };
  EXPECT_TRUE(heads(problem(128, 128)));
  EXPECT_TRUE(heads(problem(197, 197, 64, DataType::kBFloat16)));
  EXPECT_TRUE(heads(problem(1, 128, 8)));
  EXPECT_FALSE(heads(problem(16, 129)));  // few queries
  EXPECT_TRUE(heads(problem(16, 129, 32)));
  EXPECT_FALSE(heads(problem(300, 257)));
  EXPECT_FALSE(heads(problem(128, 128, 72)));
  EXPECT_FALSE(heads(problem(128, 128, 12)));  // no whole packs
  EXPECT_FALSE(heads(problem(128, 128, 64, DataType::kFloat)));
  EXPECT_FALSE(heads(Problem(DataType::kFloat16, 4, 2, 1, 128, 64, 64)));  // a group's heads are packed
  EXPECT_FALSE(heads(problem(128, 128), {.warps = 2}));
  info_.simulated = false, info_.major = 8;
  EXPECT_FALSE(heads(problem(128, 128)));
}

TEST_F(AttentionPlanTest, AWindowIsOfOneWarpWhereThereAreMany) {
  const auto warps = [&](int64_t batch, int64_t queries, int64_t size, bool bias = true) {
    AttentionProblem p = Problem(DataType::kFloat16, 4, 4, queries, 49, size, size);
    p.batch = batch, p.bias = bias, p.bias_strides = {.query = 49, .key = 1, .keys = 49};
    return PlanAttention(p, info_).value().window_warps;
  };
  EXPECT_EQ(warps(10000, 49, 32), 1);
  EXPECT_EQ(warps(1, 49, 32), 4);
  EXPECT_EQ(warps(1, 20, 32), 2);
  EXPECT_EQ(warps(1, 65, 32), 0);
  EXPECT_EQ(warps(1, 49, 40), 0);
  EXPECT_EQ(warps(1, 49, 32, false), 0);
}

TEST_F(AttentionPlanTest, WhatCannotBeIsRefused) {
  AttentionProblem p = Problem(DataType::kDouble, 4, 2, 3, 5, 8, 8);
  const auto refusal = [&](const AttentionChoice& choice) { return PlanAttention(p, info_, choice).status(); };
  EXPECT_FAILS(refusal({.warps = 5}), kInvalidArgument, "no 5 warps");
  EXPECT_FAILS(refusal({.packed = 3}), kInvalidArgument, "either 1 or 2 heads");
  EXPECT_FAILS(refusal({.value_tile = 128}), kInvalidArgument, "128 columns");
  EXPECT_FAILS(refusal({.whole_rows_warps = 4}), kInvalidArgument, "all 5 keys");
  EXPECT_FAILS(refusal({.warpgroup_heads = true}), kInvalidArgument, "all 5 keys");
  EXPECT_FAILS(refusal({.window_warps = 4}), kInvalidArgument, "no 4 warps share a window of 5 keys");
  EXPECT_FAILS(refusal({.few_queries = true}), kInvalidArgument, "6 rows of 8 elements");
  EXPECT_FAILS(refusal({.depth = 24}), kInvalidArgument, "not whole 16");
  EXPECT_FAILS(refusal({.splits = kMostSplits + 1}), kInvalidArgument, "64 parts at most");
  p.scores = AttentionScores::kMasked;
  EXPECT_FAILS(refusal({.splits = 2}), kInvalidArgument, "where scores are wanted");
  p.head_size = 1 << 14;
  EXPECT_FAILS(refusal({}), kNotSupported, "bytes of shared memory");
}

TEST_F(AttentionPlanTest, KeysAreSplitWhereBlocksAreFew) {
  EXPECT_GT(PlanAttention(Problem(DataType::kFloat16, 1, 1, 1, 4096, 64, 64), info_).value().splits, 1);
  EXPECT_EQ(PlanAttention(Problem(DataType::kFloat16, 1, 1, 1, 300, 64, 64), info_).value().splits, 1);
  EXPECT_EQ(PlanAttention(Problem(DataType::kFloat16, 64, 64, 64, 4096, 64, 64), info_).value().splits, 1);
}

// A part without a tile is a block for nothing, and the others have more than they need.
TEST_F(AttentionPlanTest, EveryPartOfTheKeysHasTiles) {
  info_.multiprocessors = 132, info_.major = 9;
  const auto splits = [&](int64_t keys) {
    AttentionProblem p = Problem(DataType::kFloat16, 16, 4, 1, keys, 64, 64);
    p.batch = 8;
    return int64_t{PlanAttention(p, info_).value().splits};
  };
  for (const int64_t keys : {128, 1024, 1025, 1500, 5000, 33000}) {
    const int64_t tiles = CeilDiv(keys, int64_t{TileKeys(AttentionKernel::kTensorCores)});
    EXPECT_EQ(CeilDiv(tiles, CeilDiv(tiles, splits(keys))), splits(keys)) << keys;
  }
  EXPECT_EQ(splits(1025), 6);
}

TEST_F(AttentionPlanTest, LessScratchMemoryIsFewerSplits) {
  const AttentionPlan plan = PlanAttention(Problem(DataType::kFloat, 4, 2, 3, 150, 8, 8), info_, {.splits = 6}).value();
  const auto fit = [&](size_t bytes) {
    AttentionPlan less = plan;
    FitScratch(less, bytes);
    EXPECT_LE(less.scratch_bytes, bytes);
    return less.splits;
  };
  EXPECT_EQ(fit(plan.scratch_bytes), 6);
  EXPECT_EQ(fit(plan.scratch_bytes - 1), 5);
  EXPECT_EQ(fit(plan.scratch_bytes / 2), 3);
  EXPECT_EQ(fit(plan.scratch_bytes / 6), 1);
  EXPECT_EQ(fit(0), 1);
}

}  // namespace
}  // namespace cudaep::kernels
