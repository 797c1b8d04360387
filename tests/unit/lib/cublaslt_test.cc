// lib/cuda's cuBLASLt layer over a library that only keeps what it is asked: which alignment an algorithm is asked for
// and given, and what becomes of failures. Nothing is launched, so any address will do.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "device/device.h"
#include "device/sim/sim.h"
#include "fake_cublaslt.h"
#include "lib/blas.h"
#include "lib/library_path.h"

static int last_errors_cleared = 0;
cudaError_t cudaGetLastError() {
  ++last_errors_cleared;
  return cudaSuccess;
}

namespace cudaep::blas {
namespace {

constexpr uintptr_t kBase = 0x10000;

class CublasLtTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(device::sim::Reset().ok());
    lib::SetLibraryPath(CUDAEP_TEST_CUBLASLT_DIR);
    auto made = CreateHandle();
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    handle_ = std::move(made).value();
    void* const library = dlopen(CUDAEP_TEST_CUBLASLT_DIR "/libcublasLt.so.13", RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(library, nullptr);
    const auto state = reinterpret_cast<FakeCublasLt* (*)()>(dlsym(library, "fakeCublasLt"));
    ASSERT_NE(state, nullptr) << "another cuBLASLt is in the process";
    fake_ = state();
    *fake_ = {};
  }
  void TearDown() override {
    lib::SetLibraryPath("");
    device::sim::Reset().IgnoreError();
  }

  std::unique_ptr<const GemmPlan> Plan(const GemmProblem& problem) {
    auto plan = MakePlan(*handle_, problem, 1 << 20);
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    return std::move(plan).value();
  }

  // A call whose tensor number `which` (a, b, c, bias, residual) lies `shift` bytes off an aligned address.
  Status Call(const GemmPlan& plan, int which = 0, uintptr_t shift = 0) {
    const auto at = [&](int index) {
      return reinterpret_cast<void*>(kBase * static_cast<uintptr_t>(index + 1) + (index == which ? shift : 0));
    };
    return Enqueue(*handle_, plan, 8,
                   {.a = at(0), .b = at(1), .c = at(2), .bias = at(3), .residual = at(4), .workspace = at(5)}, stream_);
  }

  static GemmProblem Product(bool deterministic) {
    return {.types = lib::MixedTypes::Of(DataType::kFloat16),
            .m = 8,
            .n = 16,
            .k = 32,
            .lda = 32,
            .ldb = 16,
            .ldc = 16,
            .epilogue = {.beta = 1.0f, .bias = true},
            .deterministic = deterministic};
  }

  std::unique_ptr<Handle> handle_;
  FakeCublasLt* fake_ = nullptr;
  device::Stream stream_{};
};

TEST_F(CublasLtTest, TheHeuristicIsToldABiasOfTheAlignmentItIsAskedFor) {
  const auto plan = Plan(Product(false));
  for (int which = 0; which < 5; ++which) {
    for (const auto& [shift, alignment] : {std::pair{0u, 256u}, std::pair{16u, 16u}, std::pair{2u, 2u}}) {
      ASSERT_TRUE(Call(*plan, which, shift).ok());
      EXPECT_EQ(fake_->calls.back().algorithm, alignment) << which;
      EXPECT_EQ(fake_->calls.back().bias, 4 * kBase + (which == 3 ? shift : 0));
    }
  }
  ASSERT_EQ(fake_->asked.size(), 3u);  // once for each
  for (const auto& question : fake_->asked) EXPECT_EQ(question.bias, question.alignment);
}

TEST_F(CublasLtTest, AStoredChoiceIsCheckedWithABiasOfItsAlignment) {
  for (bool deterministic : {false, true}) {
    const GemmProblem problem = Product(deterministic);
    const auto plan = Plan(problem);
    ASSERT_TRUE(MakePlan(*handle_, problem, 1 << 20, plan->choice()).ok());
    GemmProblem fewer = problem;
    fewer.m = 5;
    EXPECT_TRUE(Covers(*handle_, *plan, fewer));
  }
  ASSERT_EQ(fake_->checked.size(), 4u);
  for (const auto& question : fake_->checked) EXPECT_EQ(question.bias, question.alignment);
}

TEST_F(CublasLtTest, ADeterministicPlanHasOneAlgorithm) {
  const auto plan = Plan(Product(true));
  EXPECT_EQ(plan->alignment(), 16u);
  for (int which = 0; which < 5; ++which) {
    for (uintptr_t shift : {0, 16, 128}) {
      ASSERT_TRUE(Call(*plan, which, shift).ok());
      EXPECT_EQ(fake_->calls.back().algorithm, 16u);
    }
    const size_t calls = fake_->calls.size();
    EXPECT_EQ(Call(*plan, which, 2).code(), StatusCode::kNotSupported) << which;
    EXPECT_EQ(fake_->calls.size(), calls);
  }
  EXPECT_EQ(fake_->asked.size(), 1u);
}

// Calls that repeat a product over strides of few bytes need an algorithm for any address, wherever the first lies.
TEST_F(CublasLtTest, StridesOfFurtherCallsCostAlignment) {
  for (bool deterministic : {false, true}) {
    GemmProblem problem = Product(deterministic);
    problem.batch = {{{.size = 4, .stride_a = 256, .stride_c = 128}, {.size = 2, .stride_a = 1027, .stride_c = 513}}};
    const auto plan = Plan(problem);
    EXPECT_EQ(plan->alignment(), 1u);
    for (uintptr_t shift : {0, 2, 16}) {
      fake_->calls.clear();
      ASSERT_TRUE(Call(*plan, 0, shift).ok());
      ASSERT_EQ(fake_->calls.size(), 2u);
      for (const auto& call : fake_->calls) EXPECT_EQ(call.algorithm, 2u);
    }
  }
}

TEST_F(CublasLtTest, AFailedCallIsTheLibrarysUnlessTheDeviceIsLost) {
  const auto plan = Plan(Product(false));
  fake_->answers = {CUBLAS_STATUS_EXECUTION_FAILED, CUBLAS_STATUS_NOT_SUPPORTED};
  last_errors_cleared = 0;
  const Status failed = Call(*plan);
  EXPECT_EQ(failed.code(), StatusCode::kDeviceError);
  EXPECT_NE(failed.message().find("cublasLtMatmul: execution failed"), std::string_view::npos) << failed.ToString();
  EXPECT_EQ(last_errors_cleared, 1);  // a later launch is not blamed
  EXPECT_EQ(Call(*plan).code(), StatusCode::kNotSupported);
  EXPECT_TRUE(Call(*plan).ok());
  EXPECT_EQ(last_errors_cleared, 2);

  fake_->answers = {CUBLAS_STATUS_EXECUTION_FAILED};
  device::sim::LoseDevice(0, "a bus that fell off");
  const Status lost = Call(*plan);
  EXPECT_EQ(lost.code(), StatusCode::kDeviceLost) << lost.ToString();
  EXPECT_NE(lost.message().find("a bus that fell off"), std::string_view::npos) << lost.ToString();
}

// kNotSupported says that nothing was launched.
TEST_F(CublasLtTest, ARefusalBehindAFirstCallIsAFailure) {
  GemmProblem problem = Product(false);
  problem.batch = {{{.size = 4, .stride_a = 256, .stride_c = 128}, {.size = 2, .stride_a = 1024, .stride_c = 512}}};
  const auto plan = Plan(problem);
  fake_->answers = {CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_NOT_SUPPORTED};
  EXPECT_EQ(Call(*plan).code(), StatusCode::kDeviceError);
  EXPECT_EQ(fake_->calls.size(), 2u);
}

}  // namespace
}  // namespace cudaep::blas
