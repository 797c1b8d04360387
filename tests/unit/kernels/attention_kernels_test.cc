// Every way in which attention can run, forced, against float64.
#include "attention_fixture.h"

namespace cudaep::kernels {
namespace {

class AttentionKernelsTest : public AttentionTest {
 protected:
  template <DataType type>
  void CheckAll(double tolerance, bool wide) {
    const AttentionProblem p = Problem(type, 4, 2, 21, 150, 40, 72);
    Check<type>(p, {}, tolerance);
    for (const int warps : {1, 2, 4}) Check<type>(p, {.warps = warps}, tolerance);
    for (const int packed : {1, 2}) Check<type>(p, {.packed = packed}, tolerance);
    for (const int depth : {16, 32, 48}) Check<type>(p, {.depth = depth}, tolerance);
    for (const int splits : {1, 2, 3, 7, kMostSplits}) Check<type>(p, {.packed = 2, .splits = splits}, tolerance);
    Check<type>(p, {.value_tile = 64, .splits = 2}, tolerance);
    if (wide) Check<type>(p, {.value_tile = 128, .splits = 2}, tolerance);
  }

  // Masks and biases with one row of values for all, for each head, for each query, each kept in parts of the keys and
  // with heads packed too.
  template <DataType type>
  void CheckAdded(double tolerance) {
    constexpr int64_t kKeys = 150, kQueries = 21, kHeads = 4;
    AttentionProblem plain = Problem(type, kHeads, 2, kQueries, kKeys, 40, 64);
    const ScoreStrides kinds[] = {{.key = 1, .keys = kKeys},
                                  {.batch = kKeys, .key = 1, .keys = kKeys},
                                  {.batch = 140, .key = 1, .keys = 140},
                                  {.head = kKeys, .key = 1, .keys = kKeys},
                                  {.head = kQueries * kKeys, .query = kKeys, .key = 1, .keys = kKeys},
                                  {.query = 1, .keys = kKeys},
                                  {.batch = kKeys, .key = 1, .keys = kKeys, .batches = 1},
                                  {.batch = 9, .query = kKeys, .key = 1, .keys = kKeys, .batches = 1}};
    for (const ScoreStrides& strides : kinds) {
      SCOPED_TRACE(StrCat("strides ", strides.batch, " ", strides.head, " ", strides.query, " ", strides.key));
      for (const AttentionChoice& choice : {AttentionChoice{.packed = 1}, {.packed = 2}, {.splits = 2}}) {
        for (const double masked : {-4.0, -std::numeric_limits<double>::infinity()}) {
          AttentionProblem p = plain;
          p.masked = masked;
          p.bias = true, p.bias_strides = strides;
          Check<type>(p, choice, tolerance);
          p.mask = AttentionMask::kBool, p.mask_strides = strides;
          Check<type>(p, choice, tolerance);
          p.bias = false;
          p.from_end = true;  // keys behind the end are added to, or not read
          Check<type>(p, choice, tolerance);
        }
      }
    }
  }

  struct Sizes {
    int64_t queries, keys, head, v_head;
  };

  // Kernels with all keys of a head at once: windows, masks, scales; rows that a first tile of keys hides; all keys
  // hidden by the smallest number there is, which makes the mean of the values; numbers that are none; and what they
  // leave to the others.
  template <DataType type>
  void CheckWholeHead(const Sizes& s, const AttentionChoice& choice, double tolerance) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    SCOPED_TRACE(StrCat(s.queries, " queries, ", s.keys, " keys, heads of ", s.head));
    takes_whole_head_ = true;
    const AttentionProblem p = Problem(type, 4, 2, s.queries, s.keys, s.head, s.v_head);
    Check<type>(p, choice, tolerance);
    for (const double special : {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity}) {
      special_ = special;
      Check<type>(p, choice, tolerance);
    }
    special_.reset();
    AttentionProblem other = p;
    other.past = s.keys - 1;
    other.left = 3;
    Check<type>(other, choice, tolerance);
    other = p;
    other.right = AttentionProblem::kUnbounded;
    for (const double scale :
         {p.scale, -p.scale, 0.0, 3e9}) {  // the last: a key alone, whatever its score is rounded to
      other.scale = scale;
      Check<type>(other, choice, tolerance);
    }
    other.scale = p.scale;
    other.bias = true, other.bias_strides = {.batch = s.keys, .key = 1, .keys = s.keys};
    other.mask = AttentionMask::kBool, other.mask_strides = {.head = 1, .key = 2, .keys = s.keys - 1};
    for (const double masked : {-4.0, -kInfinity}) {
      other.masked = masked;
      Check<type>(other, choice, tolerance);
    }
    other.bias = false;
    other.mask_strides = {.key = 3, .keys = s.keys};
    const uint16_t lowest = type == DataType::kBFloat16 ? 0xff7f : 0xfbff;
    mask_.assign(mask_.size(), 0);
    for (const bool seen : {false, true}) {  // none, or the last key alone
      mask_[static_cast<size_t>(3 * std::max<int64_t>(s.keys - 1, 0))] = seen ? 1 : 0;
      other.masked = static_cast<double>(Load(CppType<type>{lowest}));
      Check<type>(other, choice, 4 * tolerance);  // sums with a number as large as that are rounded
      other.masked = -kInfinity;
      Check<type>(other, choice, tolerance);
    }
    mask_ = kThirdsHidden;
    other.mask_strides = {.key = 1, .keys = 0};  // hides all keys
    Check<type>(other, choice, tolerance);
    other.mask = AttentionMask::kNone;
    other.bias = true, other.bias_strides = {.key = 1, .keys = 0};
    Check<type>(other, choice, tolerance);
    takes_whole_head_ = false;
    other.bias_strides = {.query = 1, .key = 1, .keys = s.keys};  // not by key
    Check<type>(other, choice, tolerance);
    other = p;
    other.y.row += 1, other.y.head = s.queries * other.y.row, other.y.batch = p.heads * other.y.head;
    Check<type>(other, choice, tolerance);
  }

  template <DataType type>
  void CheckWholeRows(double tolerance) {
    for (const Sizes& s :
         {Sizes{70, 128, 64, 64}, {37, 100, 64, 64}, {64, 64, 64, 64}, {37, 37, 40, 24}, {5, 9, 8, 8}}) {
      for (const int warps : {1, 2, 4}) {
        if (warps == 4 || s.keys == 37) CheckWholeHead<type>(s, {.packed = 1, .whole_rows_warps = warps}, tolerance);
      }
    }
  }

  template <DataType type>
  void CheckWarpgroupHeads(double tolerance) {
    for (const Sizes& s : {Sizes{37, 128, 64, 64},
                           {65, 64, 64, 64},
                           {37, 37, 40, 24},
                           {5, 9, 8, 8},
                           {17, 197, 40, 64},
                           {33, 256, 16, 56},
                           {1, 1, 8, 8}}) {
      CheckWholeHead<type>(s, {.packed = 1, .warpgroup_heads = true}, tolerance);
    }
  }

  // A bias for each score: of all entries, of a few that come again, of each entry and head, of a part of the keys;
  // windows; and what that kernel leaves to the others.
  template <DataType type>
  void CheckWarpgroupBias(double tolerance) {
    takes_whole_head_ = false;
    struct Sizes {
      int64_t queries, keys, head;
    };
    for (const Sizes& s : {Sizes{37, 128, 64}, {65, 64, 64}, {70, 104, 40}, {3, 8, 8}, {33, 256, 16}, {17, 200, 64}}) {
      AttentionProblem p = Problem(type, 4, 2, s.queries, s.keys, s.head, s.head);
      p.batch = 3;
      p.right = AttentionProblem::kUnbounded;
      p.bias = true;
      const ScoreStrides kinds[] = {
          {.query = s.keys, .key = 1, .keys = s.keys},
          {.batch = 16, .head = 8, .query = 24, .key = 1, .keys = s.keys, .batches = 2},
          {.batch = 8, .head = 64, .query = 8, .key = 1, .keys = s.keys - 3},
          {.query = 8, .key = 1, .keys = 0},
      };
      for (const ScoreStrides& strides : kinds) {
        SCOPED_TRACE(StrCat(s.queries, " queries, ", s.keys, " keys, stride ", strides.query));
        p.bias_strides = strides;
        takes_warpgroup_bias_ = true;
        const AttentionChoice choice{.packed = 1, .warpgroup_heads = true};
        Check<type>(p, choice, tolerance);
        // Keys of a query in part, all of the first tile, all.
        hidden_bias_ = [&](int64_t i) { return i % 3 != 0; };
        Check<type>(p, choice, tolerance);
        hidden_bias_ = [&](int64_t i) { return strides.query != 0 && i % strides.query < 128; };
        for (const bool nan : {false, true}) {
          AttentionProblem hidden = p;
          hidden.empty_is_nan = nan;
          Check<type>(hidden, choice, tolerance);
        }
        hidden_bias_ = nullptr;
        AttentionProblem other = p;
        other.right = 0, other.left = 5;
        Check<type>(other, choice, tolerance);
        other = p;
        other.scale = -p.scale;
        Check<type>(other, choice, tolerance);
        takes_warpgroup_bias_ = false;
        other = p;
        other.bias_strides.query += 1;
        Check<type>(other, choice, tolerance);
        other = p;
        other.mask = AttentionMask::kBool, other.mask_strides = {.head = 1, .key = 2, .keys = s.keys};
        Check<type>(other, choice, tolerance);
      }
    }
  }

  // Windows with a bias for each score: whole and parts of tiles, of one entry, of a few that come again, of each entry
  // and head; and what that kernel leaves to the others.
  template <DataType type>
  void CheckWindows(double tolerance) {
    struct Sizes {
      int64_t batch, queries, keys;
    };
    for (const Sizes& s : {Sizes{5, 49, 49}, {2, 64, 64}, {7, 16, 37}, {3, 40, 40}, {1, 3, 9}}) {
      AttentionProblem p = Problem(type, 4, 2, s.queries, s.keys, 32, 32);
      p.batch = s.batch;
      p.right = AttentionProblem::kUnbounded;
      p.bias = true;
      const int64_t matrix = s.queries * s.keys;
      const ScoreStrides kinds[] = {
          {.head = matrix, .query = s.keys, .key = 1, .keys = s.keys},
          {.batch = 7, .head = 3, .query = s.keys, .key = 1, .keys = s.keys, .batches = 2},
          {.batch = 11, .head = 64, .query = 1, .key = 2, .keys = s.keys - 1},
      };
      for (const ScoreStrides& strides : kinds) {
        SCOPED_TRACE(StrCat("batch ", s.batch, " keys ", s.keys, " stride ", strides.batch));
        p.bias_strides = strides;
        takes_windows_ = true;
        for (const int warps : {1, 2, 3, 4}) Check<type>(p, {.window_warps = warps}, tolerance);
        takes_windows_ = false;
        AttentionProblem other = p;
        other.right = 0;
        Check<type>(other, {.window_warps = 1}, tolerance);
        other.right = p.right;
        other.mask = AttentionMask::kBool, other.mask_strides = {.head = 1, .key = 2, .keys = s.keys};
        Check<type>(other, {.window_warps = 1}, tolerance);
        other = p;
        other.y.row += 4, other.y.head = p.queries * other.y.row, other.y.batch = p.heads * other.y.head;
        Check<type>(other, {.window_warps = 1}, tolerance);
      }
    }
  }

  // Up to 16 rows: one, a group's heads, all; keys of whole steps and parts of them, windows, ranges, masks; and what
  // that kernel leaves to the others.
  template <DataType type>
  void CheckFewQueries(int64_t size, double tolerance) {
    struct Sizes {
      int64_t heads, kv_heads, queries, keys;
    };
    for (const Sizes& s : {Sizes{4, 4, 1, 5}, {4, 1, 1, 150}, {4, 2, 8, 131}, {4, 4, 16, 256}, {6, 2, 5, 64}}) {
      const AttentionProblem p = Problem(type, s.heads, s.kv_heads, s.queries, s.keys, size, size);
      for (const int splits : {1, 3}) {
        const AttentionChoice choice = {.splits = splits, .few_queries = true};
        Check<type>(p, choice, tolerance);
        AttentionProblem other = p;
        other.right = AttentionProblem::kUnbounded;
        Check<type>(other, choice, tolerance);
        if (s.keys == 150) {
          other.from_end = true;
          Check<type>(other, choice, tolerance);
          other.from_end = false;
        }
        other.bias = true, other.bias_strides = {.batch = s.keys, .key = 1, .keys = s.keys};
        other.mask = AttentionMask::kBool, other.mask_strides = {.batch = 1, .key = 2, .keys = s.keys - 1};
        for (const double masked : {-4.0, -std::numeric_limits<double>::infinity()}) {
          other.masked = masked;
          Check<type>(other, choice, tolerance);
        }
        other.bias_strides = {.query = 1, .key = 1, .keys = s.keys};  // not by key
        Check<type>(other, choice, tolerance);
      }
    }
  }
};

TEST_F(AttentionKernelsTest, EveryVariantInFloat) { CheckAll<DataType::kFloat>(2e-6, true); }
TEST_F(AttentionKernelsTest, EveryVariantInFloat16) { CheckAll<DataType::kFloat16>(6e-4, true); }
TEST_F(AttentionKernelsTest, EveryVariantInBFloat16) { CheckAll<DataType::kBFloat16>(5e-3, true); }
TEST_F(AttentionKernelsTest, EveryVariantInDouble) { CheckAll<DataType::kDouble>(1e-14, false); }

TEST_F(AttentionKernelsTest, AddedToScoresInFloat) { CheckAdded<DataType::kFloat>(2e-6); }
TEST_F(AttentionKernelsTest, AddedToScoresInFloat16) { CheckAdded<DataType::kFloat16>(6e-4); }

TEST_F(AttentionKernelsTest, WholeRowsInFloat16) { CheckWholeRows<DataType::kFloat16>(6e-4); }
TEST_F(AttentionKernelsTest, WholeRowsInBFloat16) { CheckWholeRows<DataType::kBFloat16>(5e-3); }

TEST_F(AttentionKernelsTest, WarpgroupHeadsInFloat16) { CheckWarpgroupHeads<DataType::kFloat16>(6e-4); }
TEST_F(AttentionKernelsTest, WarpgroupHeadsInBFloat16) { CheckWarpgroupHeads<DataType::kBFloat16>(5e-3); }

TEST_F(AttentionKernelsTest, WarpgroupBiasInFloat16) { CheckWarpgroupBias<DataType::kFloat16>(6e-4); }
TEST_F(AttentionKernelsTest, WarpgroupBiasInBFloat16) { CheckWarpgroupBias<DataType::kBFloat16>(5e-3); }

// Exact scores beyond a half of a million, by one larger in the second tile: what rounds them shows.
TEST_F(AttentionKernelsTest, TilesOfLargeScoresAgree) {
  AttentionProblem p = Problem(DataType::kFloat16, 4, 4, 64, 256, 8, 64);
  p.right = AttentionProblem::kUnbounded;
  p.scale = 1;
  q_row_ = {16, 1, 0, 0, 0, 0, 0, 0}, k_first_ = {32768, 0, 0, 0, 0, 0, 0, 0}, k_later_ = {32768, 1, 0, 0, 0, 0, 0, 0};
  Check<DataType::kFloat16>(p, {.warpgroup_heads = true}, 2e-4);
}

TEST_F(AttentionKernelsTest, WindowsInFloat16) { CheckWindows<DataType::kFloat16>(6e-4); }
TEST_F(AttentionKernelsTest, WindowsInBFloat16) { CheckWindows<DataType::kBFloat16>(5e-3); }

TEST_F(AttentionKernelsTest, FewQueriesInFloat16) {
  CheckFewQueries<DataType::kFloat16>(64, 6e-4);
  CheckFewQueries<DataType::kFloat16>(128, 6e-4);
}
TEST_F(AttentionKernelsTest, FewQueriesInBFloat16) {
  CheckFewQueries<DataType::kBFloat16>(64, 5e-3);
  CheckFewQueries<DataType::kBFloat16>(128, 5e-3);
}

TEST_F(AttentionKernelsTest, AQueryWithoutKeysIsZeroOrNan) {
  mask_.assign(mask_.size(), 0);
  for (const bool nan : {false, true}) {
    for (const int splits : {1, 2}) {
      AttentionProblem p = Problem(DataType::kFloat16, 4, 2, 21, 150, 40, 64);
      p.mask = AttentionMask::kBool, p.mask_strides = {.key = 1, .keys = 150};
      p.empty_is_nan = nan;
      Check<DataType::kFloat16>(p, {.splits = splits}, 0);
    }
    AttentionProblem p = Problem(DataType::kFloat16, 4, 2, 21, 50, 40, 64);
    p.mask = AttentionMask::kBool, p.mask_strides = {.key = 1, .keys = 50};
    p.empty_is_nan = nan;
    Check<DataType::kFloat16>(p, {.whole_rows_warps = 4}, 0);
    Check<DataType::kFloat16>(p, {.warpgroup_heads = true}, 0);
    AttentionProblem step = Problem(DataType::kFloat16, 4, 2, 1, 150, 64, 64);
    step.mask = AttentionMask::kBool, step.mask_strides = {.key = 1, .keys = 150};
    step.empty_is_nan = nan;
    Check<DataType::kFloat16>(step, {.splits = 2, .few_queries = true}, 0);
    AttentionProblem window = Problem(DataType::kFloat16, 4, 2, 21, 50, 32, 32);
    window.right = AttentionProblem::kUnbounded;
    window.bias = true, window.bias_strides = {.query = 1, .key = 1, .keys = 0};
    window.empty_is_nan = nan;
    Check<DataType::kFloat16>(window, {.window_warps = 1}, 0);
  }
}

// Past keys and values that lie elsewhere: the result's bits are those of a call that has them in front, and they are
// there afterwards.
class AttentionPastTest : public AttentionTest {
 protected:
  template <DataType type>
  void CheckCopies(int64_t heads, int64_t kv_heads, int64_t queries, int64_t past, int64_t capacity, int64_t size) {
    using T = CppType<type>;
    SCOPED_TRACE(StrCat(DataTypeName(type), ' ', heads, " heads of ", kv_heads, ", ", queries, " behind ", past));
    const int64_t keys = past + queries;
    const AttentionProblem p = Problem(type, heads, kv_heads, queries, keys, size, size);
    auto plan = PlanAttention(p, info_, {.splits = 1, .few_queries = true});
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    const std::vector<T> k = Values<T>(p.batch * p.k.batch, 2), v = Values<T>(p.batch * p.v.batch, 3);
    // Past rows, in tensors with room for more, and what is left of k and v without them.
    const auto parted = [&](const std::vector<T>& whole, std::vector<T>& rest) {
      std::vector<T> of_past(static_cast<size_t>(p.batch * kv_heads * capacity * size), Store<T>(9.0f));
      rest = whole;
      for (int64_t head = 0; head < p.batch * kv_heads; ++head) {
        const auto from = rest.begin() + head * keys * size;
        std::copy_n(from, past * size, of_past.begin() + head * capacity * size);
        std::fill_n(from, past * size, Store<T>(7.0f));
      }
      return of_past;
    };
    std::vector<T> k_rest, v_rest;
    const std::vector<T> k_past = parted(k, k_rest), v_past = parted(v, v_rest);
    const auto count = static_cast<size_t>(p.batch * p.y.batch);
    T *const y = Allocate<T>(count), *const expected = Allocate<T>(count);
    T *const to_k = Upload(k_rest), *const to_v = Upload(v_rest);
    AttentionPointers at{.q = Upload(Values<T>(p.batch * p.q.batch, 1)), .k = Upload(k), .v = Upload(v), .y = expected};
    EXPECT_FALSE(CopiesPast(*plan, at));
    ASSERT_OK(LaunchAttention(*plan, at, stream()));
    const AttentionStrides strides{kv_heads * capacity * size, capacity * size, size};
    at.k = to_k, at.v = to_v, at.y = y;
    at.past = {.k = Upload(k_past),
               .v = Upload(v_past),
               .to_k = to_k,
               .to_v = to_v,
               .k_strides = strides,
               .v_strides = strides,
               .rows = past};
    ASSERT_TRUE(CopiesPast(*plan, at));
    ASSERT_OK(LaunchAttention(*plan, at, stream()));
    EXPECT_EQ(Wide(Download(y, count)), Wide(Download(expected, count)));
    EXPECT_EQ(Wide(Download(to_k, k.size())), Wide(k));
    EXPECT_EQ(Wide(Download(to_v, v.size())), Wide(v));

    // Calls that do not walk over all of it once, by this kernel.
    const auto copies = [&](auto&& change) {
      AttentionPlan other = *plan;
      AttentionPointers other_at = at;
      change(other, other_at);
      return CopiesPast(other, other_at);
    };
    EXPECT_TRUE(copies([](auto&, auto&) {}));
    EXPECT_FALSE(copies([](auto& of, auto&) { of.splits = 2; }));
    EXPECT_FALSE(copies([](auto& of, auto&) { of.few_queries = false; }));
    EXPECT_FALSE(copies([&](auto& of, auto&) { of.problem.left = past - 1; }));
    EXPECT_FALSE(copies([](auto&, auto& other) { other.key_end = other.q; }));
    EXPECT_FALSE(copies([](auto&, auto& other) { other.key_begin = static_cast<const int32_t*>(other.q); }));
    EXPECT_FALSE(copies([&](auto& of, auto&) {
      of.problem.mask = AttentionMask::kBool, of.problem.mask_strides = {.key = 1, .keys = past - 1};
    }));
    EXPECT_FALSE(copies([](auto&, auto& other) { other.past.k = static_cast<const T*>(other.past.k) + 1; }));
    EXPECT_FALSE(copies([](auto&, auto& other) { other.past.v_strides.row += 1; }));
    EXPECT_FALSE(copies([](auto&, auto& other) { other.sink = other.q; }));
    if (heads > kv_heads) {
      EXPECT_FALSE(copies([](auto& of, auto&) { of.packed = 1; }));
    }
  }
};

TEST_F(AttentionPastTest, IsReadOnceForResultAndCopy) {
  CheckCopies<DataType::kFloat16>(4, 4, 1, 150, 150, 64);
  CheckCopies<DataType::kFloat16>(8, 2, 1, 300, 320, 64);
  CheckCopies<DataType::kFloat16>(4, 1, 3, 129, 130, 128);
  CheckCopies<DataType::kBFloat16>(4, 2, 2, 31, 31, 64);
  CheckCopies<DataType::kBFloat16>(2, 2, 16, 260, 264, 128);
}

}  // namespace
}  // namespace cudaep::kernels
