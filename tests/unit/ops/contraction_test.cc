#include "ops/einsum/contraction.h"

#include <gtest/gtest.h>

#include <string>

namespace cudaep::ops {
namespace {

constexpr int64_t kSize[] = {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};

LabelView View(const std::string& labels) {
  LabelView view;
  for (const char c : labels) view.push_back({c - 'a', kSize[c - 'a'], 0});
  return Dense(std::move(view));
}

struct Expected {
  const char* a;
  const char* b;
  const char* contracted;
  const char* result;
  size_t launches = 1;
};

Contraction Place(const Expected& e, const LabelView* wanted) {
  std::vector<int> contracted;
  for (const char* c = e.contracted; *c != 0; ++c) contracted.push_back(*c - 'a');
  return PlaceContraction(View(e.a), View(e.b), contracted, wanted);
}

// Strides alone describe these: nothing is copied.
TEST(ContractionTest, TakesStridesWhereTheyDo) {
  for (const Expected& e : {
           Expected{"ab", "bc", "b", "ac"},
           Expected{"ba", "bc", "b", "ca"},
           Expected{"abc", "ace", "c", "abe"},
           Expected{"abc", "ce", "c", "abe"},
           Expected{"abcd", "bed", "d", "abce"},
           Expected{"abcd", "ced", "d", "abce"},
           Expected{"abcd", "aecd", "d", "acbe"},
           Expected{"abcd", "adbe", "d", "acbe"},
           Expected{"abcd", "cdef", "cd", "abef"},
       }) {
    const LabelView wanted = View(e.result);
    const Contraction found = Place(e, &wanted);
    EXPECT_FALSE(found.packed_a) << e.a << ',' << e.b;
    EXPECT_FALSE(found.packed_b) << e.a << ',' << e.b;
    EXPECT_EQ(found.result, wanted) << e.a << ',' << e.b;
    EXPECT_EQ(found.launches.size(), e.launches) << e.a << ',' << e.b;
  }
}

TEST(ContractionTest, RowsOfAllBatchesAreOneProduct) {
  const Contraction found = Place({"abc", "cd", "c", ""}, nullptr);
  EXPECT_EQ(found.problem.m, kSize[0] * kSize[1]);
  EXPECT_EQ(found.problem.batches(), 1);
}

TEST(ContractionTest, PacksOneOperandWhereInnerDimensionsLieDifferently) {
  const LabelView wanted = View("ad");
  const Contraction found = Place({"abc", "cbd", "bc", ""}, &wanted);
  EXPECT_NE(found.packed_a.has_value(), found.packed_b.has_value());
  EXPECT_EQ(found.result, wanted);
}

}  // namespace
}  // namespace cudaep::ops
