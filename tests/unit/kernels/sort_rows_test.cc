#include "kernels/sort/sort_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "../device/device_fixture.h"

namespace cudaep::kernels {
namespace {

class SortRowsTest : public device::testing::DeviceTest, public ::testing::WithParamInterface<int64_t> {
 protected:
  // Few values, so that whole rows are equal and have to keep their order.
  template <class Word>
  void Check(int64_t row_words, unsigned values) {
    const int64_t rows = GetParam();
    std::vector<Word> words(static_cast<size_t>(rows * row_words));
    uint32_t state = 99;
    for (Word& word : words) word = static_cast<Word>((state = state * 1664525u + 1013904223u) >> 8) % values;
    std::vector<int64_t> expected(static_cast<size_t>(rows));
    std::iota(expected.begin(), expected.end(), 0);
    const auto row = [&](int64_t i) { return words.begin() + i * row_words; };
    std::stable_sort(expected.begin(), expected.end(), [&](int64_t a, int64_t b) {
      return std::lexicographical_compare(row(a), row(a) + row_words, row(b), row(b) + row_words);
    });
    const RowSort sort{.rows = rows, .row_words = row_words, .word_bytes = sizeof(Word)};
    auto* const order = Allocate<int64_t>(expected.size());
    void* const scratch = Allocate<char>(sort.scratch_bytes());
    EXPECT_OK(LaunchSortRows(sort, Upload(words), order, scratch, stream()));
    EXPECT_EQ(Download(order, expected.size()), expected);
  }
};

TEST_P(SortRowsTest, EqualRowsKeepTheirOrder) {
  Check<uint64_t>(1, 100);
  Check<uint32_t>(3, 4);
  Check<uint16_t>(1, 60000);
  Check<uint8_t>(2, 5);
}

INSTANTIATE_TEST_SUITE_P(Rows, SortRowsTest, ::testing::Values(1, 2, 7, 1024, 1025, 2048, 3000, 5000));

}  // namespace
}  // namespace cudaep::kernels
