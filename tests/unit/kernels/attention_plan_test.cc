// Every way in which attention can run, forced, against float64; a way that cannot be is an error.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "../device/device_fixture.h"
#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "core/strings.h"
#include "device/device_info.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/flash.h"

namespace cudaep::kernels {
namespace {

class AttentionPlanTest : public device::testing::DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    const auto info = device::GetDeviceInfo(0);
    ASSERT_TRUE(info.ok());
    info_ = *info.value();
  }

  // Heads first and contiguous; query i sees the keys up to i + past.
  static AttentionProblem Problem(DataType type, int64_t heads, int64_t kv_heads, int64_t queries, int64_t keys,
                                  int64_t size, int64_t v_size) {
    AttentionProblem p;
    p.type = type;
    p.compute = type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
    p.batch = 2, p.heads = heads, p.kv_heads = kv_heads, p.queries = queries, p.keys = keys;
    p.head_size = size, p.v_head_size = v_size;
    p.q = {heads * queries * size, queries * size, size};
    p.k = {kv_heads * keys * size, keys * size, size};
    p.v = {kv_heads * keys * v_size, keys * v_size, v_size};
    p.y = {heads * queries * v_size, queries * v_size, v_size};
    p.scale = 1.0 / std::sqrt(static_cast<double>(size));
    p.past = keys - queries;
    p.right = 0;
    return p;
  }

  template <class T>
  static std::vector<T> Values(int64_t count, uint32_t seed) {
    std::vector<T> values(static_cast<size_t>(count));
    for (T& value : values) {
      seed = seed * 1664525u + 1013904223u;
      value = Store<T>(static_cast<ComputeType<T>>(static_cast<double>(seed >> 16) / 32768.0 - 1.0));
    }
    return values;
  }

  template <DataType type>
  void Check(const AttentionProblem& p, const AttentionChoice& choice, double tolerance) {
    using T = CppType<type>;
    SCOPED_TRACE(StrCat(DataTypeName(type), " warps ", choice.warps, " packed ", choice.packed, " tile ",
                        choice.value_tile, " depth ", choice.depth, " splits ", choice.splits, " whole rows ",
                        choice.whole_rows_warps, " window ", choice.window_warps,
                        choice.few_queries ? " few queries" : "", choice.warpgroup_heads ? " warpgroup heads" : ""));
    const auto plan = PlanAttention(p, info_, choice);
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    EXPECT_TRUE(choice.splits == 0 || plan.value().splits == choice.splits);
    EXPECT_TRUE(choice.packed == 0 || plan.value().packed == choice.packed);
    std::vector<T> q = Values<T>(p.batch * p.q.batch, 1), k = Values<T>(p.batch * p.k.batch, 2);
    const std::vector<T> v = Values<T>(p.batch * p.v.batch, 3);
    const auto narrow = [](double x) { return Store<T>(static_cast<ComputeType<T>>(x)); };
    if (special_) k[static_cast<size_t>(p.head_size - 1)] = narrow(*special_);
    for (size_t i = 0; !q_row_.empty() && i < q.size(); ++i) q[i] = narrow(q_row_[i % q_row_.size()]);
    for (size_t i = 0; !q_row_.empty() && i < k.size(); ++i) {
      const bool later = static_cast<int64_t>(i) / p.k.row % p.keys >= 128;
      k[i] = narrow((later ? k_later_ : k_first_)[i % q_row_.size()]);
    }
    const auto count = static_cast<size_t>(p.batch * p.y.batch);
    const std::vector<T> bias = Values<T>(kAddedElems, 4);
    T* const y = Allocate<T>(count);
    const AttentionPointers at = {.q = Upload(q),
                                  .k = Upload(k),
                                  .v = Upload(v),
                                  .y = y,
                                  .mask = p.mask_strides.keys == 0 ? nullptr : Upload(mask_),
                                  .bias = p.bias_strides.keys == 0 ? nullptr : Upload(bias),
                                  .key_end = p.from_end ? Upload(key_end_) : nullptr,
                                  .scratch = Allocate<std::byte>(plan.value().scratch_bytes + 1)};
    const FlashArguments arguments = MakeFlashArguments(plan.value(), at);
    EXPECT_TRUE(choice.window_warps == 0 || TakesWindows(arguments) == takes_windows_);
    EXPECT_TRUE(choice.whole_rows_warps == 0 || TakesWholeHead(arguments) == takes_whole_head_);
    EXPECT_TRUE(!choice.warpgroup_heads ||
                (TakesWholeHead(arguments) && arguments.y_aligned != 0) == takes_whole_head_);
    ASSERT_OK(LaunchAttention(plan.value(), at, stream()));
    const std::vector<T> result = Download(y, count);
    const std::vector<double> wide_q = Wide(q), wide_k = Wide(k), wide_v = Wide(v), wide_bias = Wide(bias);
    for (int64_t b = 0; b < p.batch; ++b) {
      for (int64_t h = 0; h < p.heads; ++h) {
        for (int64_t i = 0; i < p.queries; ++i)
          CheckRow(p, wide_q.data(), wide_k.data(), wide_v.data(), wide_bias.data(), result.data(), b, h, i, tolerance);
      }
    }
  }

  template <class T>
  static std::vector<double> Wide(const std::vector<T>& values) {
    std::vector<double> wide;
    wide.reserve(values.size());
    for (const T value : values) wide.push_back(static_cast<double>(Load(value)));
    return wide;
  }

  template <class T>
  void CheckRow(const AttentionProblem& p, const double* q, const double* k, const double* v, const double* bias,
                const T* y, int64_t b, int64_t h, int64_t i, double tolerance) {
    const int64_t kv = h / (p.heads / p.kv_heads);
    std::vector<double> sums(static_cast<size_t>(p.v_head_size)), scores;
    std::vector<int64_t> seen;
    double total = 0, max = -std::numeric_limits<double>::infinity();
    const int64_t position = i + (p.from_end ? key_end_[static_cast<size_t>(b)] - p.queries : p.past);
    for (int64_t j = 0; j < p.keys; ++j) {
      if (j < position - p.left || j > position + p.right) continue;
      double score = 0;
      for (int64_t d = 0; d < p.head_size; ++d) {
        score += q[b * p.q.batch + h * p.q.head + i * p.q.row + d] * k[b * p.k.batch + kv * p.k.head + j * p.k.row + d];
      }
      const auto index = [&](const ScoreStrides& s) {
        return (s.batches == 0 ? b : b % s.batches) * s.batch + h * s.head + i * s.query + j * s.key;
      };
      double added = 0;
      if (p.from_end && j >= key_end_[static_cast<size_t>(b)]) added += p.masked;
      if (p.mask != AttentionMask::kNone) {
        if (j >= p.mask_strides.keys) continue;
        if (mask_[static_cast<size_t>(index(p.mask_strides))] == 0) added += p.masked;
      }
      if (p.bias) {
        if (j >= p.bias_strides.keys) continue;
        added += bias[index(p.bias_strides)];
      }
      scores.push_back(score * p.scale + added);
      seen.push_back(j);
      max = std::max(max, scores.back());
    }
    for (size_t n = 0; n < seen.size(); ++n) {
      const int64_t j = seen[n];
      const bool hidden = std::isinf(scores[n]) && scores[n] < 0;  // or there were NaN where all are
      const double weight = hidden ? 0 : std::exp(scores[n] - max);
      total += weight;
      for (int64_t d = 0; d < p.v_head_size; ++d) {
        sums[static_cast<size_t>(d)] += weight * v[b * p.v.batch + kv * p.v.head + j * p.v.row + d];
      }
    }
    for (int64_t d = 0; d < p.v_head_size; ++d) {
      const double wanted = total == 0 && !p.empty_is_nan ? 0 : sums[static_cast<size_t>(d)] / total;
      const auto found = static_cast<double>(Load(y[b * p.y.batch + h * p.y.head + i * p.y.row + d]));
      ASSERT_EQ(std::isnan(found), std::isnan(wanted));
      ASSERT_TRUE(std::isnan(wanted) || std::fabs(found - wanted) <= tolerance)
          << found << " for " << wanted << " batch " << b << ", head " << h << ", query " << i << ", column " << d;
    }
  }

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

  // What calls are whose plan has the kernel of windows, or one that has all keys of a head at once.
  bool takes_windows_ = true, takes_whole_head_ = true;
  std::optional<double> special_;  // an element of the first key
  // If any: each row of the queries, of the first 128 keys and of the rest.
  std::vector<double> q_row_, k_first_, k_later_;
  static constexpr int64_t kAddedElems = 4 * 64 * 64;
  const std::vector<uint8_t> kThirdsHidden = [] {
    std::vector<uint8_t> mask(kAddedElems);
    for (size_t i = 0; i < mask.size(); ++i) mask[i] = i % 3 != 0 ? 1 : 0;
    return mask;
  }();
  std::vector<uint8_t> mask_ = kThirdsHidden;
  std::vector<int64_t> key_end_ = {150, 71};
  device::DeviceInfo info_;
};

TEST_F(AttentionPlanTest, EveryVariantInFloat) { CheckAll<DataType::kFloat>(2e-6, true); }
TEST_F(AttentionPlanTest, EveryVariantInFloat16) { CheckAll<DataType::kFloat16>(6e-4, true); }
TEST_F(AttentionPlanTest, EveryVariantInBFloat16) { CheckAll<DataType::kBFloat16>(5e-3, true); }
TEST_F(AttentionPlanTest, EveryVariantInDouble) { CheckAll<DataType::kDouble>(1e-14, false); }

TEST_F(AttentionPlanTest, AddedToScoresInFloat) { CheckAdded<DataType::kFloat>(2e-6); }
TEST_F(AttentionPlanTest, AddedToScoresInFloat16) { CheckAdded<DataType::kFloat16>(6e-4); }

TEST_F(AttentionPlanTest, WholeRowsInFloat16) { CheckWholeRows<DataType::kFloat16>(6e-4); }
TEST_F(AttentionPlanTest, WholeRowsInBFloat16) { CheckWholeRows<DataType::kBFloat16>(5e-3); }

TEST_F(AttentionPlanTest, WarpgroupHeadsInFloat16) { CheckWarpgroupHeads<DataType::kFloat16>(6e-4); }
TEST_F(AttentionPlanTest, WarpgroupHeadsInBFloat16) { CheckWarpgroupHeads<DataType::kBFloat16>(5e-3); }

// Exact scores beyond a half of a million, by one larger in the second tile: what rounds them shows.
TEST_F(AttentionPlanTest, TilesOfLargeScoresAgree) {
  AttentionProblem p = Problem(DataType::kFloat16, 4, 4, 64, 256, 8, 64);
  p.right = AttentionProblem::kUnbounded;
  p.scale = 1;
  q_row_ = {16, 1, 0, 0, 0, 0, 0, 0}, k_first_ = {32768, 0, 0, 0, 0, 0, 0, 0}, k_later_ = {32768, 1, 0, 0, 0, 0, 0, 0};
  Check<DataType::kFloat16>(p, {.warpgroup_heads = true}, 2e-4);
}

TEST_F(AttentionPlanTest, WindowsInFloat16) { CheckWindows<DataType::kFloat16>(6e-4); }
TEST_F(AttentionPlanTest, WindowsInBFloat16) { CheckWindows<DataType::kBFloat16>(5e-3); }

TEST_F(AttentionPlanTest, FewQueriesInFloat16) {
  CheckFewQueries<DataType::kFloat16>(64, 6e-4);
  CheckFewQueries<DataType::kFloat16>(128, 6e-4);
}
TEST_F(AttentionPlanTest, FewQueriesInBFloat16) {
  CheckFewQueries<DataType::kBFloat16>(64, 5e-3);
  CheckFewQueries<DataType::kBFloat16>(128, 5e-3);
}

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

TEST_F(AttentionPlanTest, AQueryWithoutKeysIsZeroOrNan) {
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
