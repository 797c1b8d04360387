// Products of few rows by a kernel of their own or as convolutions: which ones, what they come to, and what runs
// elsewhere.
#include "ops/gemm/short_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "context_fixture.h"
#include "kernels/movement/transpose.h"
#include "lib/problem_check.h"
#include "ops/gemm/matrix_product.h"
#include "ops/registry.h"
#include "plain_info.h"

namespace cudaep::ops {
namespace {

constexpr int64_t kColumns = 24, kInner = 40;

blas::GemmProblem Short(DataType type, int64_t rows, Epilogue epilogue = {.bias = true}) {
  return {.types = lib::MixedTypes::Of(type),
          .m = rows,
          .n = kColumns,
          .k = kInner,
          .transpose_b = true,
          .lda = kInner,
          .ldb = kInner,
          .ldc = kColumns,
          .epilogue = epilogue};
}

double Activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kGeluErf:
      return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return x * 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    default:
      return x;
  }
}

// A MatMul of compiled regions with constant weights that nobody else reads, and a bias.
class Biased : public testing::PlainInfo {
 public:
  explicit Biased(bool constant_bias) : PlainInfo("MatMul", 3), constant_bias_(constant_bias) {}
  DataType input_type(int) const override { return DataType::kFloat16; }
  bool is_only_reader(int) const override { return true; }
  std::optional<ConstantInfo> constant(int index) const override {
    if (index == 1) return ConstantInfo{DataType::kFloat16, Shape{kInner, kColumns}};
    if (index == 2 && constant_bias_) return ConstantInfo{DataType::kFloat16, Shape{kColumns}};
    return std::nullopt;
  }

 private:
  const bool constant_bias_;
};

// They read it before earlier work is done.
TEST(ShortProductBiasTest, ThatANodeMakesKeepsEnginesAway) {
  const KernelRow* const row = FindRow(kFusedDomain, "MatMul", 1);
  ASSERT_NE(row, nullptr);
  for (const bool constant : {true, false}) {
    auto matmul = row->make(Biased(constant), *row);
    CUDAEP_ASSERT_OK(matmul.status());
    EXPECT_EQ((*matmul)->libraries().dnn, constant);
  }
}

class ShortProductTest : public ContextTest {
 protected:
  static bool Simulated() { return std::string_view(device::BackendName()) == "simulated"; }

  Result<MatrixProduct> Make(const blas::GemmProblem& p, const Settings& settings = {}, bool may_be_short = true) {
    ProductOptions options(settings);
    options.constant_b = true;
    options.may_be_short = may_be_short && MayBeShort(settings);
    return MatrixProduct::Make(*context_, p, options);
  }
  bool IsConvolution(const blas::GemmProblem& p, const Settings& settings = {}) {
    auto product = Make(p, settings);
    EXPECT_TRUE(product.ok()) << product.status().ToString();
    return product.ok() && product->convolution() != nullptr;
  }

  // Every tensor but the weights lies `shift` elements behind an aligned address.
  std::vector<double> Run(const MatrixProduct& product, const blas::GemmProblem& p, size_t shift) {
    const DataType type = p.types.a;
    const auto upload = [&](std::vector<double> values, size_t by) {
      values.insert(values.begin(), by, 0.0);
      return static_cast<std::byte*>(Upload(type, values)) + by * SizeOf(type);
    };
    const std::vector<double> empty(static_cast<size_t>(p.m * p.n), NAN);
    const blas::GemmPointers at{.a = upload(TestValues(p.m * p.k, 1), shift),
                                .b = upload(TestValues(p.n * p.k, 2), 0),
                                .c = upload(empty, shift),
                                .bias = upload(TestValues(p.n, 3), shift),
                                .residual = upload(TestValues(p.m * p.n, 4), shift),
                                .workspace = context_->workspace().Reserve(product.workspace_bytes()).value()};
    Check(product.Enqueue(*context_, at));
    return Download(type, at.c, p.m * p.n);
  }
  static std::vector<double> Wanted(const blas::GemmProblem& p) {
    const auto a = TestValues(p.m * p.k, 1), b = TestValues(p.n * p.k, 2), bias = TestValues(p.n, 3);
    const auto residual = TestValues(p.m * p.n, 4);
    std::vector<double> wanted;
    for (int64_t row = 0; row < p.m; ++row) {
      for (int64_t column = 0; column < p.n; ++column) {
        double sum = p.epilogue.bias ? bias[static_cast<size_t>(column)] : 0.0;
        if (p.epilogue.residual()) sum += residual[wanted.size()];
        for (int64_t k = 0; k < p.k; ++k) {
          sum += a[static_cast<size_t>(row * p.k + k)] * b[static_cast<size_t>(column * p.k + k)];
        }
        wanted.push_back(Activate(p.epilogue.activation, sum));
      }
    }
    return wanted;
  }

  const char* Lacks(const device::DeviceInfo& /*device*/) const override {
    return dnn::Version().ok() ? nullptr : "no cuDNN";
  }
};

// The engine does not wait for the kernel in front of it, here one that lets it in early, before it reads a residual.
TEST_F(ShortProductTest, AResidualThatTheKernelInFrontWrites) {
  constexpr int64_t kRows = 40;
  const blas::GemmProblem p = Short(DataType::kFloat16, kRows, {.beta = 1.0f});
  auto product = Make(p);
  CUDAEP_ASSERT_OK(product.status());
  PlanStore::Process().WaitForBackground();
  if (product->convolution() == nullptr || product->convolution()->plan().choice() != dnn::kRuntimeEngine) {
    ASSERT_FALSE(Simulated());
    GTEST_SKIP() << "no runtime engine";
  }
  auto transpose = kernels::PlanTranspose(Shape{p.n, p.m}, Shape{1, 0}, 2);
  CUDAEP_ASSERT_OK(transpose.status());
  const std::vector<double> term = TestValues(p.m * p.n, 3);
  std::vector<double> turned(term.size());
  for (int64_t row = 0; row < p.m; ++row) {
    for (int64_t n = 0; n < p.n; ++n)
      turned[static_cast<size_t>(n * p.m + row)] = term[static_cast<size_t>(row * p.n + n)];
  }
  void* const residual = Upload(DataType::kFloat16, std::vector<double>(term.size()));
  const void* const first = Upload(DataType::kFloat16, turned);
  const blas::GemmPointers at{.a = Upload(DataType::kFloat16, TestValues(p.m * p.k, 1)),
                              .b = Upload(DataType::kFloat16, TestValues(p.n * p.k, 2)),
                              .c = Upload(DataType::kFloat16, std::vector<double>(term.size())),
                              .residual = residual,
                              .workspace = context_->workspace().Reserve(product->workspace_bytes()).value()};
  Check(kernels::LaunchTranspose(*transpose, first, residual, context_->stream()));
  Check(product->Enqueue(*context_, at));
  std::vector<double> wanted = Wanted(Short(DataType::kFloat16, kRows, {}));
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i] += term[i];
  ExpectNear(DataType::kFloat16, Download(DataType::kFloat16, at.c, p.m * p.n), wanted);
}

TEST_F(ShortProductTest, EveryEpilogueOfFewRows) {
  for (DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
    for (int64_t rows : {1, 17, 128, 256, 257}) {
      for (const bool bias : {false, true}) {
        for (const bool residual : {false, true}) {
          for (Activation activation :
               {Activation::kNone, Activation::kRelu, Activation::kGeluErf, Activation::kGeluTanh, Activation::kSilu}) {
            // A process compiles for so many problems only.
            const bool all = rows == 17 && type == DataType::kFloat16;
            if (!all && activation != (bias ? Activation::kGeluErf : Activation::kNone)) continue;
            const blas::GemmProblem p =
                Short(type, rows, {.beta = residual ? 1.0f : 0.0f, .bias = bias, .activation = activation});
            SCOPED_TRACE(blas::ProblemText(p));
            auto product = Make(p);
            CUDAEP_ASSERT_OK(product.status());
            ExpectNear(type, Run(*product, p, 0), Wanted(p));
            PlanStore::Process().WaitForBackground();
            EXPECT_TRUE(product->settled());
            const PlanSlotPtr& plan = product->convolution();
            if (Simulated()) {
              ASSERT_EQ(product->has_few_rows(), rows <= kernels::kFewRows);
              ASSERT_EQ(plan != nullptr, rows <= kMostShortRows && rows > kernels::kFewRows);
              EXPECT_TRUE(plan == nullptr || plan->plan().choice() == dnn::kRuntimeEngine);
            }
            if (plan != nullptr) {
              EXPECT_TRUE(plan->plan().remaining().empty());
            }
            ExpectNear(type, Run(*product, p, 0), Wanted(p));
            ExpectNear(type, Run(*product, p, 1), Wanted(p));  // by the other ways
          }
        }
      }
    }
  }
}

TEST_F(ShortProductTest, WhatTheEngineDoesNotTakeRunsAsBefore) {
  const blas::GemmProblem fits = Short(DataType::kFloat16, 20);
  if (Simulated()) {
    EXPECT_TRUE(IsConvolution(fits));
  }
  using Change = void (*)(blas::GemmProblem & p);
  constexpr Change kOthers[] = {
      [](blas::GemmProblem& p) { p.types = lib::MixedTypes::Of(DataType::kFloat); },
      [](blas::GemmProblem& p) { p.m = kMostShortRows + 1; },
      [](blas::GemmProblem& p) { p.k = p.lda = p.ldb = 36; },
      [](blas::GemmProblem& p) { p.n = p.ldc = 20; },
      [](blas::GemmProblem& p) { p.lda = 48; },
      [](blas::GemmProblem& p) { p.ldc = 32; },
      [](blas::GemmProblem& p) { p.transpose_b = false, p.ldb = p.n; },
      [](blas::GemmProblem& p) { p.transpose_a = true, p.lda = p.m; },
      [](blas::GemmProblem& p) { p.batch[0] = {.size = 2, .stride_a = 20 * kInner, .stride_c = 20 * kColumns}; },
      [](blas::GemmProblem& p) { p.epilogue.alpha = 0.5f; },
      [](blas::GemmProblem& p) { p.epilogue.beta = 0.5f; },
  };
  for (const Change change : kOthers) {
    blas::GemmProblem p = fits;
    change(p);
    EXPECT_FALSE(IsConvolution(p)) << blas::ProblemText(p);
  }
}

// Which are several operations to the library.
TEST_F(ShortProductTest, HardActivationsAreTheEnginesToo) {
  const blas::GemmProblem p = Short(DataType::kFloat16, 20, {.bias = true, .activation = Activation::kHardSwish});
  auto product = Make(p);
  CUDAEP_ASSERT_OK(product.status());
  PlanStore::Process().WaitForBackground();
  EXPECT_TRUE(product->settled());
  blas::GemmProblem linear = p;
  linear.epilogue.activation = Activation::kNone;
  std::vector<double> wanted = Wanted(linear);
  for (double& y : wanted) y *= std::clamp(y / 6 + 0.5, 0.0, 1.0);
  ExpectNear(DataType::kFloat16, Run(*product, p, 0), wanted);
  EXPECT_TRUE(IsConvolution(p));
}

TEST_F(ShortProductTest, SettingsThatWantOtherwise) {
  const blas::GemmProblem p = Short(DataType::kFloat16, 20);
  Settings settings;
  settings.compiled_engines = false;
  EXPECT_FALSE(IsConvolution(p, settings));
  settings = {};
  settings.deterministic = true;
  EXPECT_FALSE(IsConvolution(p, settings));
  settings = {};
  settings.enable_cudnn = false;
  EXPECT_FALSE(IsConvolution(p, settings));
  for (GemmPath path : {GemmPath::kLibrary, GemmPath::kOwnKernel}) {
    settings = {};
    settings.gemm_path = path;
    EXPECT_FALSE(IsConvolution(p, settings));
  }
  auto unasked = Make(p, {}, false);
  CUDAEP_ASSERT_OK(unasked.status());
  EXPECT_EQ(unasked->convolution(), nullptr);
}

TEST(ShortProduct, RowsThatTheModelStates) {
  EXPECT_TRUE(HasManyRows(Shape{257, 8}));
  EXPECT_FALSE(HasManyRows(Shape{256, 8}));
  EXPECT_TRUE(HasManyRows(Shape{16, 17, 8}));
  EXPECT_FALSE(HasManyRows(Shape{512}));  // a vector has one
  EXPECT_TRUE(HasManyRows(Shape{kUnknownDim, 512, 8}));
  EXPECT_FALSE(HasManyRows(Shape{kUnknownDim, 128, kUnknownDim}));
  EXPECT_FALSE(HasManyRows(Shape{0, 512, 8}));
  EXPECT_FALSE(HasManyRows(Shape{512, 0, 8}));
  EXPECT_TRUE(HasManyRows(Shape{int64_t{1} << 40, int64_t{1} << 40, 8}));
}

TEST_F(ShortProductTest, SettingsOfTheFewestRows) {
  const blas::GemmProblem p = Short(DataType::kFloat16, 3);
  const auto has_few_rows = [&](const Settings& settings, bool may_be_short = true) {
    auto product = Make(p, settings, may_be_short);
    return product.ok() && product->has_few_rows();
  };
  if (Simulated()) {
    ASSERT_TRUE(has_few_rows({}));
  }
  if (!has_few_rows({})) GTEST_SKIP() << "a device before 8.0";
  Settings settings;
  settings.compiled_engines = settings.enable_cudnn = false;
  EXPECT_TRUE(has_few_rows(settings));
  settings.deterministic = true;
  EXPECT_FALSE(has_few_rows(settings));
  settings = {};
  settings.gemm_path = GemmPath::kLibrary;
  EXPECT_FALSE(has_few_rows(settings));
  EXPECT_FALSE(has_few_rows({}, false));
}

// The plan of other rows is the library's, in the workspace that is there.
TEST_F(ShortProductTest, OtherRowsOfTheSameProduct) {
  const blas::GemmProblem p = Short(DataType::kFloat16, 64, {.bias = true, .activation = Activation::kGeluErf});
  auto product = Make(p);
  CUDAEP_ASSERT_OK(product.status());
  PlanStore::Process().WaitForBackground();
  for (int64_t rows : {64, 63, 5, 300}) {
    auto other = product->OfRows(*context_, rows);
    CUDAEP_ASSERT_OK(other.status());
    if (Simulated()) {
      EXPECT_EQ(other->convolution() != nullptr, rows == p.m);
      EXPECT_EQ(other->has_few_rows(), rows <= kernels::kFewRows);
    }
    blas::GemmProblem wanted = p;
    wanted.m = rows;
    ExpectNear(DataType::kFloat16, Run(*other, wanted, 0), Wanted(wanted));
  }
}

}  // namespace
}  // namespace cudaep::ops
