// Rows of queries, keys and values written together are those written one after another, whatever packs each suits.
#include "kernels/attention/head_rows.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "../device/device_fixture.h"

namespace cudaep::kernels {
namespace {

constexpr int64_t kBatch = 2, kHeads = 3, kSize = 16, kPast = 5, kNew = 2, kRows = kPast + kNew;

class HeadRowsTest : public device::testing::DeviceTest {
 protected:
  static std::vector<float> Numbers(int64_t count, float first) {
    std::vector<float> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i) * 0.25f;
    return values;
  }

  // Appends to a cache; every tensor `shift` elements behind an aligned address.
  HeadRowsPart Appended(size_t shift, float first, RowTarget target, int64_t new_rows = kNew) {
    const AttentionStrides in{.batch = kHeads * kNew * kSize, .head = kSize, .row = kHeads * kSize};
    const AttentionStrides past{.batch = kHeads * kPast * kSize, .head = kPast * kSize, .row = kSize};
    const AttentionStrides out{.batch = kHeads * kRows * kSize, .head = kRows * kSize, .row = kSize};
    const HeadRows problem{.batch = kBatch,
                           .heads = kHeads,
                           .size = kSize,
                           .new_rows = new_rows,
                           .rows = kRows,
                           .in = in,
                           .past = past,
                           .out = out,
                           .past_rows = kPast,
                           .past_capacity = kPast,
                           .target = target};
    const auto upload = [&](std::vector<float> values) {
      values.insert(values.begin(), shift, 0.0f);
      return Upload(values) + shift;
    };
    return {problem,
            {.in = upload(Numbers(kBatch * in.batch, first)),
             .past = upload(Numbers(kBatch * past.batch, first - 1000)),
             .out = upload(std::vector<float>(static_cast<size_t>(kBatch * out.batch), -7.0f))}};
  }
  std::vector<float> Written(const HeadRowsPart& part) {
    return Download(static_cast<const float*>(part.at.out), static_cast<size_t>(kBatch * kHeads * kRows * kSize));
  }
};

TEST_F(HeadRowsTest, PartsThatAreWrittenTogetherAreWhatTheyAreAlone) {
  for (const size_t shift : {size_t{0}, size_t{1}}) {
    const auto make = [&] {
      return std::array{Appended(0, 1, RowTarget::kAlone), Appended(shift, 2, RowTarget::kWhole),
                        Appended(0, 3, RowTarget::kInPlace)};
    };
    const auto together = make(), alone = make();
    ASSERT_OK(LaunchHeadRows(together, stream()));
    for (const HeadRowsPart& part : alone) ASSERT_OK(LaunchHeadRows(part.problem, part.at, stream()));
    for (size_t i = 0; i < together.size(); ++i) EXPECT_EQ(Written(together[i]), Written(alone[i])) << i;
  }
}

// A token that is appended to a buffer which past and present share: no other row is touched.
TEST_F(HeadRowsTest, InPlaceOnlyTheNewRowsAreWritten) {
  const HeadRowsPart part = Appended(0, 1, RowTarget::kInPlace);
  ASSERT_OK(LaunchHeadRows(part.problem, part.at, stream()));
  const std::vector<float> written = Written(part);
  const auto rows = static_cast<size_t>(kRows), size = static_cast<size_t>(kSize), past = static_cast<size_t>(kPast);
  for (size_t i = 0; i < written.size(); ++i) {
    EXPECT_EQ(written[i] == -7.0f, i / size % rows < past) << i;
  }
}

// A bias of zeros asks for the kernel that does all.
TEST_F(HeadRowsTest, PlainRowsAreThoseOfTheGeneralKernel) {
  struct Sizes {
    int64_t heads, rows, size;
  };
  // The last: more packs than a block of the plain kernel has threads for; the one before: several heads a thread.
  for (const Sizes& s : {Sizes{3, 5, 16}, {2, 3, 24}, {1, 2, 2048}, {5, 1640, 64}, {1, 2, 4096}}) {
    const std::vector<float> in = Numbers(kBatch * s.rows * s.heads * s.size, 1);
    const std::vector<float> zeros(static_cast<size_t>(s.heads * s.size));
    // Moves; a number for each pair; for each element, of rows behind past ones; the same of neighbours.
    for (const int form : {0, 1, 2, 3}) {
      const int64_t past = form >= 2 ? 2 : 0, columns = form == 1 ? s.size / 2 : s.size;
      HeadRowsPart part{.problem = {.batch = kBatch,
                                    .heads = s.heads,
                                    .size = s.size,
                                    .new_rows = s.rows,
                                    .rows = s.rows + past,
                                    .in = {s.rows * s.heads * s.size, s.size, s.heads * s.size},
                                    .out = {s.heads * (s.rows + past) * s.size, (s.rows + past) * s.size, s.size},
                                    .past_rows = past,
                                    .target = form >= 2 ? RowTarget::kInPlace : RowTarget::kAlone},
                        .at = {.in = Upload(in)}};
      const std::vector<float> cos = Numbers(kBatch * (s.rows + past) * columns, -3);
      if (form != 0) {
        part.problem.rotary = {.dim = s.size,
                               .interleaved = form == 3,
                               .each = form >= 2,
                               .cache_rows = kBatch * (s.rows + past),
                               .new_only = form == 1,
                               .cache_batch_rows = s.rows + past};
        part.at.cos = Upload(cos), part.at.sin = Upload(Numbers(kBatch * (s.rows + past) * columns, 5));
      }
      const auto run = [&](const void* bias) {
        const auto count = static_cast<size_t>(kBatch * part.problem.out.batch);
        float* const out = Upload(std::vector<float>(count, -7.0f));
        part.at.out = out, part.at.bias = bias;
        EXPECT_TRUE(LaunchHeadRows({&part, 1}, stream()).ok());
        return Download(static_cast<const float*>(out), count);
      };
      const std::vector<float> plain = run(nullptr), general = run(Upload(zeros));
      EXPECT_EQ(plain, general) << s.size << " elements, form " << form;
      EXPECT_GT(std::count_if(plain.begin(), plain.end(), [](float x) { return x != -7.0f; }),
                kBatch * s.heads * s.rows * s.size / 2);
    }
  }
}

TEST_F(HeadRowsTest, EmptyPartsAreLeftOut) {
  const std::array parts{Appended(0, 1, RowTarget::kAlone, 0), Appended(0, 2, RowTarget::kWhole)};
  ASSERT_OK(LaunchHeadRows(parts, stream()));
  EXPECT_EQ(Written(parts[0])[0], -7.0f);
  EXPECT_EQ(Written(parts[1])[0], 2.0f - 1000);
  std::array types{parts[1], parts[1]};
  types[1].problem.type = DataType::kFloat16;
  EXPECT_EQ(LaunchHeadRows(types, stream()).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cudaep::kernels
