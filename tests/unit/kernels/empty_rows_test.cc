// Rows that the bias leaves no key become zeros or NaN, and no other row is touched.
#include "kernels/attention/empty_rows.h"

#include <gtest/gtest.h>

#include <cmath>

#include "../device/device_fixture.h"

namespace cudaep::kernels {
namespace {

constexpr int64_t kBatch = 2, kHeads = 3, kQueries = 5, kKeys = 70, kSize = 40;

struct Form {
  const char* name;
  bool by_batch = false, by_head = false, by_query = false, causal = false;
};

class EmptyRowsTest : public device::testing::DeviceTest, public ::testing::WithParamInterface<Form> {};

TEST_P(EmptyRowsTest, AreFilled) {
  const Form& form = GetParam();
  AttentionProblem p;
  p.type = DataType::kFloat16;
  p.batch = kBatch, p.heads = kHeads, p.queries = kQueries, p.keys = kKeys, p.head_size = p.v_head_size = kSize;
  p.y = {.batch = kQueries * kHeads * kSize, .head = kSize, .row = kHeads * kSize};
  p.bias = true;
  if (form.causal) p.right = 0;
  const int64_t queries = form.by_query ? kQueries : 1, heads = form.by_head ? kHeads : 1;
  const int64_t batch = form.by_batch ? kBatch : 1;
  p.bias_strides = {.batch = form.by_batch ? heads * queries * kKeys : 0,
                    .head = form.by_head ? queries * kKeys : 0,
                    .query = form.by_query ? kKeys : 0,
                    .key = 1,
                    .keys = kKeys};
  // Of every other row all are hidden, of the rest all but one: where causal, the second, which the first query misses.
  const int64_t seen = form.causal ? 1 : kKeys - 1;
  std::vector<Half> bias(static_cast<size_t>(batch * heads * queries * kKeys), HalfFromFloat(-INFINITY));
  for (int64_t row = 1; row < batch * heads * queries; row += 2) {
    bias[static_cast<size_t>(row * kKeys + seen)] = HalfFromFloat(-65504);
  }
  const std::vector<Half> before(static_cast<size_t>(kBatch * p.y.batch), HalfFromFloat(1));
  for (const bool nan : {false, true}) {
    p.empty_is_nan = nan;
    Half* const y = Upload(before);
    ASSERT_OK(LaunchEmptyRows(p, {.y = y, .bias = Upload(bias)}, stream()));
    const std::vector<Half> after = Download(y, before.size());
    bool has_empty = false, has_other = false;
    for (size_t i = 0; i < after.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const int64_t n = at / p.y.batch, query = at % p.y.batch / p.y.row, head = at % p.y.row / kSize;
      const int64_t row =
          ((form.by_batch ? n : 0) * heads + (form.by_head ? head : 0)) * queries + (form.by_query ? query : 0);
      const bool empty = row % 2 == 0 || (form.causal && query < seen);
      const float value = ToFloat(after[i]);
      ASSERT_TRUE(empty && nan ? std::isnan(value) : value == (empty ? 0.0f : 1.0f)) << value << " at " << i;
      has_empty |= empty, has_other |= !empty;
    }
    EXPECT_TRUE(has_empty);
    EXPECT_EQ(has_other, form.by_batch || form.by_head || form.by_query);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, EmptyRowsTest,
                         ::testing::Values(Form{.name = "OneRow"}, Form{.name = "Batch", .by_batch = true},
                                           Form{.name = "BatchCausal", .by_batch = true, .causal = true},
                                           Form{.name = "Query", .by_query = true},
                                           Form{.name = "QueryCausal", .by_query = true, .causal = true},
                                           Form{.name = "Head", .by_head = true}, Form{"All", true, true, true}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace cudaep::kernels
