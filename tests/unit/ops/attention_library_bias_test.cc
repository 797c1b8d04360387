// Attention with a bias by the vendor library: of any form and length, also where it hides all keys of a query.
#include "attention_library_fixture.h"
#include "kernels/attention/flash.h"

namespace cudaep::ops {
namespace {

// Of every key, query and head; a quarter of the keys is hidden by the least number.
TEST_F(AttentionLibraryTest, TakesABiasOfAnyForm) {
  bias_ = TestValues(kHeads * kRows * kRows, 4);
  for (size_t i = 0; i < bias_.size(); i += 4) bias_[i] = -65504;
  at_.bias = Upload(DataType::kFloat16, bias_);
  using Strides = kernels::ScoreStrides;
  for (const Strides& strides :
       {Strides{}, Strides{.query = kRows}, Strides{.head = kRows}, Strides{.head = kRows * kRows, .query = kRows}}) {
    AttentionProblem p = Causal();
    p.bias = true;
    p.bias_strides = strides;
    p.bias_strides.key = 1, p.bias_strides.keys = kRows;
    SKIP_WHERE_REFUSED(IsTaken(p));
    ExpectLastRow(p);
  }
}

// No row of the bias but the first of eight begins at a whole pack of elements.
TEST_F(AttentionLibraryTest, TakesABiasOfOddLengths) {
  using Strides = kernels::ScoreStrides;
  for (const int64_t rows : {int64_t{113}, int64_t{137}}) {
    AttentionProblem p = Causal(rows);
    p.batch *= 2;
    p.bias = true;
    bias_ = TestValues(p.batch * kHeads * rows * rows, 4);
    at_.bias = Upload(DataType::kFloat16, bias_);
    for (const Strides& strides :
         {Strides{.head = rows}, Strides{.query = rows}, Strides{.batch = rows * rows, .query = rows},
          Strides{.batch = kHeads * rows * rows, .head = rows * rows, .query = rows}}) {
      p.bias_strides = strides;
      p.bias_strides.key = 1, p.bias_strides.keys = rows;
      for (const int64_t right : {int64_t{0}, AttentionProblem::kUnbounded}) {
        p.right = right;
        SKIP_WHERE_REFUSED(IsTaken(p));
        for (const int64_t query : {int64_t{1}, int64_t{6}, int64_t{67}, rows - 2, rows - 1}) {
          ExpectRow(p, query);
          ExpectRow(p, query, p.batch - 1);
        }
      }
    }
  }
}

// Queries whose keys the bias hides with minus infinity have no result, or none that is a number; causal ones see none
// of the later keys, which it does not hide.
TEST_F(AttentionLibraryTest, RowsWithoutKeysAreWhatTheOwnKernelMakesOfThem) {
  constexpr int64_t kSome = 5, kLate = 120;
  bias_.assign(static_cast<size_t>(kRows * kRows), 0);
  const auto hide = [&](int64_t query, int64_t keys) { std::fill_n(bias_.begin() + query * kRows, keys, -INFINITY); };
  hide(0, kRows);
  hide(kSome, kSome + 1);
  hide(kLate, kLate - 8);
  at_.bias = Upload(DataType::kFloat16, bias_);
  for (const bool causal : {false, true}) {
    for (const bool empty_is_nan : {false, true}) {
      AttentionProblem p = Causal();
      if (!causal) p.right = AttentionProblem::kUnbounded;
      p.bias = true;
      p.bias_strides = {.query = kRows, .key = 1, .keys = kRows};
      p.empty_is_nan = empty_is_nan;
      SKIP_WHERE_REFUSED(IsTaken(p));
      for (const int64_t query : {int64_t{1}, kSome - 1, kSome + 1, kLate, kRows - 1}) ExpectRow(p, query);
      if (!causal) ExpectRow(p, kSome);
      const auto y = Download(DataType::kFloat16, at_.y, p.y.batch);
      for (const int64_t query : {int64_t{0}, causal ? kSome : 0}) {
        for (int64_t i = query * p.y.row; i < (query + 1) * p.y.row; ++i) {
          const double value = y[static_cast<size_t>(i)];
          ASSERT_TRUE(empty_is_nan ? std::isnan(value) : value == 0) << value << " of query " << query;
        }
      }
    }
  }
}

// The own kernels with all keys of a head at once are ahead of it up to more multiplications, where they can do the
// call: by warpgroups of more keys and with a bias for each score too, whose rows are whole packs; none with a range of
// keys.
TEST_F(AttentionLibraryTest, LeavesFewKeysToOwnKernels) {
  const auto problem = [&](int64_t rows) {
    AttentionProblem p = Causal(rows);
    p.head_size = p.v_head_size = 64;
    p.bias = true;
    p.bias_strides = {.key = 1, .keys = rows};
    return p;
  };
  constexpr int64_t kTwoTiles = 192, kNoPacks = kTwoTiles + 4;
  bias_ = TestValues(kTwoTiles * kNoPacks, 4);
  at_.bias = Upload(DataType::kFloat16, bias_);
  AttentionProblem p = problem(128);
  EXPECT_FALSE(IsTaken(p));
  AttentionPointers ranged = at_;
  ranged.key_end = at_.q;
  SKIP_WHERE_REFUSED(IsTaken(p, ranged));
  p = problem(kTwoTiles);
  if (kernels::TakesWarpgroupHeads(p, stream_->device_info())) {
    for (const int64_t query : {int64_t{0}, kTwoTiles}) {
      p.bias_strides.query = query;
      EXPECT_FALSE(IsTaken(p)) << query;
    }
  }
  p.bias_strides.query = kNoPacks;
  SKIP_WHERE_REFUSED(IsTaken(p));
  p.bias_strides.query = 0;
  p.head_size = p.v_head_size = kSize;
  SKIP_WHERE_REFUSED(IsTaken(p));
  ExpectLastRow(p);
}

}  // namespace
}  // namespace cudaep::ops
