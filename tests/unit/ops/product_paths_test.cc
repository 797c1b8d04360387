// Every way to run a product, forced; plans that are shared; handles that are taken in time.
#include <chrono>
#include <cmath>
#include <thread>

#include "library_paths.h"
#include "runtime/plan_timing.h"

namespace cudaep::ops {
namespace {

using ProductPathsTest = LibraryPathsTest;

TEST_F(ProductPathsTest, EveryEpilogueOfAProductGivesTheResultByEitherPath) {
  for (DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBFloat16, DataType::kDouble}) {
    for (Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGeluErf, Activation::kSigmoid,
                                  Activation::kSilu, Activation::kTanh}) {
      const blas::GemmProblem p = Product(type, 19, activation);
      SCOPED_TRACE(blas::ProblemText(p));
      Settings settings = Exact();
      CheckProduct(settings, p, true);
      settings.gemm_path = GemmPath::kOwnKernel;
      CheckProduct(settings, p, false);
    }
  }
}

TEST_F(ProductPathsTest, RowsAreRoundedUpByAnEighthAtMost) {
  for (int64_t m = 1; m <= 5000; ++m) {
    const int64_t bucket = RowBucket(m);
    ASSERT_GE(bucket, m);
    ASSERT_LE(8 * (bucket - m), m) << m;
    ASSERT_EQ(RowBucket(bucket), bucket);
  }
}

// Also where the own kernel may not take its place.
TEST_F(ProductPathsTest, RowsThatAPlanDoesNotCoverGetOneOfTheirOwn) {
  for (GemmPath path : {GemmPath::kAuto, GemmPath::kLibrary}) {
    Settings settings = Exact();
    settings.gemm_path = path;
    for (DataType type : {DataType::kFloat, DataType::kFloat16}) {
      for (const auto& [planned, rows] : {std::pair{19, 17}, std::pair{19, 100}, std::pair{3, 64}, std::pair{64, 3}}) {
        CheckProduct(settings, Product(type, rows, Activation::kRelu), true, planned);
        CheckProduct(settings, Product(type, rows, Activation::kGeluErf), true, planned);
      }
    }
  }
}

TEST_F(ProductPathsTest, ProductsOfManyLengthsShareAFewPlans) {
  StreamContext context(0, stream());
  const uint64_t before = PlanStore::Process().statistics().built;
  for (int64_t m = 1; m <= 512; ++m) {
    blas::GemmProblem p = Product(DataType::kFloat16, m);
    p.epilogue.alpha = 0.75f;  // of this test alone
    CUDAEP_ASSERT_OK(MatrixProduct::Make(context, p, ProductOptions()).status());
  }
  EXPECT_LE(PlanStore::Process().statistics().built - before, 64u);
  const Settings settings = Exact();
  for (int64_t m : {1, 17, 113, 129, 500}) CheckProduct(settings, Product(DataType::kFloat16, m), true);
}

TEST_F(ProductPathsTest, StreamsTakeTheHandlesTheyNeedAndNoOthers) {
  const uint64_t dnn_before = DnnHandles().created();
  std::vector<std::unique_ptr<StreamContext>> contexts;
  for (int i = 0; i < 64; ++i) {
    contexts.push_back(std::make_unique<StreamContext>(0, stream()));
    CUDAEP_ASSERT_OK(contexts.back()->TakeHandles({.blas = true}));
  }
  EXPECT_EQ(DnnHandles().created(), dnn_before);
  const uint64_t blas_before = BlasHandles().created();
  auto product = MatrixProduct::Make(*contexts[0], Product(DataType::kFloat, 8), ProductOptions());
  CUDAEP_ASSERT_OK(product.status());
  EXPECT_EQ(BlasHandles().created(), blas_before);  // what was taken is used
}

// What fails before the time is up leaves the others their turn.
TEST_F(ProductPathsTest, AShortTimeStillFindsOneThatRuns) {
  StreamContext context(0, stream());
  auto times = TimeAlternatives(
      context, 3,
      [&](size_t i) -> Status {
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
        return i == 0 ? NotSupported("the first") : Status::Ok();
      },
      5, 1);
  CUDAEP_ASSERT_OK(times.status());
  EXPECT_TRUE(std::isinf((*times)[0]));
  EXPECT_FALSE(std::isinf((*times)[1]));
  EXPECT_TRUE(std::isinf((*times)[2]));
}

TEST_F(ProductPathsTest, AlternativesAreTimedAndFailuresPassedOver) {
  StreamContext context(0, stream());
  TimingTensors tensors(context);
  void* const memory = tensors.Random(DataType::kFloat16, 100'000).value();
  const auto values = Download(DataType::kFloat16, memory, 100'000);
  EXPECT_NE(values[1], values[2]);
  for (double value : values) ASSERT_LE(std::abs(value), 1.0);
  int calls[2] = {};
  const auto times = TimeAlternatives(context, 2, [&](size_t i) -> Status {
    ++calls[i];
    if (i == 1) return NotSupported("never runs");
    return device::MemsetAsync(memory, 0, 200'000, stream());
  });
  CUDAEP_ASSERT_OK(times.status());
  EXPECT_LT(times.value()[0], times.value()[1]);
  EXPECT_EQ(calls[0], 6);
  EXPECT_EQ(calls[1], 1);
}

}  // namespace
}  // namespace cudaep::ops
