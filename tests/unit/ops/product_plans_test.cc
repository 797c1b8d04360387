// Plans of products that were measured: made when asked, kept in a file, and never in a deterministic session.
#include "ops/gemm/product_plans.h"

#include <unistd.h>

#include <filesystem>

#include "core/strings.h"
#include "library_paths.h"

namespace cudaep::ops {
namespace {

class ProductPlansTest : public LibraryPathsTest {
 protected:
  void SetUp() override {
    LibraryPathsTest::SetUp();
    file_ = std::filesystem::temp_directory_path() / StrCat("product_plans_", static_cast<int64_t>(getpid()));
    std::filesystem::remove(file_);
    PlanStore::Process().Clear();
  }
  void TearDown() override {
    PlanStore::Process().Clear();
    std::filesystem::remove(file_);
    LibraryPathsTest::TearDown();
  }

  ProductSearch Search(bool use_measured, bool measure) const {
    ProductSearch search;
    search.use_measured = use_measured;
    search.measure = measure;
    search.plan_file = file_;
    return search;
  }
  PlanSlotPtr Find(const ProductSearch& search, const blas::GemmProblem& problem, size_t limit = 1 << 20) {
    StreamContext context(0, stream());
    auto slot = FindProductPlan(context, search, problem, limit);
    EXPECT_TRUE(slot.ok()) << slot.status().ToString();
    return slot.ok() ? *slot : nullptr;
  }

  std::filesystem::path file_;
};

TEST_F(ProductPlansTest, AreMeasuredWhenAskedAndThenUsed) {
  const blas::GemmProblem p = Product(DataType::kFloat16, 40);
  const PlanSlotPtr first = Find(Search(false, false), p);
  // Nothing was measured yet: the library's first serves, and nothing is remembered as impossible.
  EXPECT_EQ(Find(Search(true, false), p), first);
  const PlanSlotPtr measured = Find(Search(true, true), p);
  ASSERT_NE(measured, nullptr);
  EXPECT_NE(measured, first);
  EXPECT_EQ(Find(Search(true, false), p), measured);
  EXPECT_EQ(Find(Search(false, false), p), first);
}

TEST_F(ProductPlansTest, AreKeptInTheFile) {
  const blas::GemmProblem p = Product(DataType::kFloat16, 40);
  const std::string choice(Find(Search(true, true), p)->plan().choice());
  CUDAEP_ASSERT_OK(PlanStore::Process().Save());
  PlanStore::Process().Clear();
  const auto before = PlanStore::Process().statistics();
  const PlanSlotPtr slot = Find(Search(true, false), p);
  const auto after = PlanStore::Process().statistics();
  EXPECT_EQ(after.loaded - before.loaded, 1u);
  EXPECT_EQ(after.built, before.built);
  EXPECT_EQ(slot->plan().choice(), choice);
}

TEST_F(ProductPlansTest, ADeterministicProblemHasNone) {
  blas::GemmProblem p = Product(DataType::kFloat16, 40);
  p.deterministic = true;
  EXPECT_EQ(Find(Search(true, true), p), Find(Search(false, false), p));
}

// Wherever the session's limit was when it was measured: it is one plan, used where it fits.
TEST_F(ProductPlansTest, AreUsedWhereTheirWorkspaceFits) {
  const blas::GemmProblem p = Product(DataType::kFloat16, 40);
  const PlanSlotPtr measured = Find(Search(true, true), p, 1 << 20);
  const size_t bytes = measured->plan().workspace_bytes();
  EXPECT_EQ(Find(Search(true, true), p, bytes), measured);
  EXPECT_EQ(Find(Search(true, false), p, 1 << 25), measured);
  if (bytes == 0) return;
  const PlanSlotPtr small = Find(Search(true, true), p, bytes - 1);
  EXPECT_NE(small, measured);
  EXPECT_LT(small->plan().workspace_bytes(), bytes);
}

// Also those whose plan does not cover them: the stream may be captured when they come.
TEST_F(ProductPlansTest, OtherRowsAreNotMeasured) {
  Settings settings = Exact();
  settings.measured_products = settings.measure_products = true;
  settings.plan_file = file_;
  StreamContext context(0, stream());
  auto product = MatrixProduct::Make(context, Product(DataType::kFloat16, 40), ProductOptions(settings));
  CUDAEP_ASSERT_OK(product.status());
  const auto before = PlanStore::Process().statistics();
  EXPECT_GT(before.built, 0u);
  CUDAEP_ASSERT_OK(product->OfRows(context, 100).status());
  const PlanSlotPtr first = Find(Search(false, false), Product(DataType::kFloat16, 100), product->workspace_bytes());
  EXPECT_EQ(product->OfRows(context, 100)->library(), first);
}

TEST_F(ProductPlansTest, GiveTheResult) {
  Settings settings = Exact();
  settings.measured_products = settings.measure_products = true;
  settings.most_measuring_ms = 1;
  for (DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kDouble}) {
    CheckProduct(settings, Product(type, 37), true);
    CheckProduct(settings, Product(type, 21), true, 37);  // of rows
  }
}

}  // namespace
}  // namespace cudaep::ops
