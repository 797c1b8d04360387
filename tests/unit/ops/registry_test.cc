#include "ops/registry.h"

#include <gtest/gtest.h>

namespace cudaep::ops {
namespace {

TEST(Registry, RowsAreWellFormed) {
  ASSERT_FALSE(AllRows().empty());
  for (const KernelRow& row : AllRows()) {
    EXPECT_NE(row.op, nullptr);
    EXPECT_LE(row.since, row.until) << row.op;
    for (const TypeConstraint& types : row.types) EXPECT_FALSE(types.types.empty()) << row.op << " " << types.name;
    EXPECT_EQ(row.make != nullptr, row.kind == RowKind::kOperator) << row.op;
  }
}

TEST(Registry, AVersionHasOneRow) {
  for (const KernelRow& a : AllRows()) {
    for (const KernelRow& b : AllRows()) {
      if (&a == &b || std::string_view(a.op) != b.op || std::string_view(a.domain) != b.domain) continue;
      EXPECT_TRUE(a.until < b.since || b.until < a.since) << a.op << " " << a.since << ".." << a.until;
    }
  }
}

TEST(Registry, FindsByDomainNameAndVersion) {
  ASSERT_NE(FindRow("", "Add", 14), nullptr);
  EXPECT_EQ(FindRow("", "Add", 6), nullptr);
  EXPECT_EQ(FindRow("com.microsoft", "Add", 14), nullptr);
  EXPECT_EQ(FindRow("", "NoSuchOperator", 1), nullptr);
}

}  // namespace
}  // namespace cudaep::ops
