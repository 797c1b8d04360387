// GEMM problems against a double-precision loop.
#include "lib/blas.h"

#include "device_fixture.h"

namespace cudaep::blas {
namespace {

struct GemmCase {
  const char* name;
  GemmProblem problem;
};

// Strides of 0 are filled in for dense matrices by Dense().
GemmProblem Dense(GemmProblem p) {
  if (p.lda == 0) p.lda = p.transpose_a ? p.m : p.k;
  if (p.ldb == 0) p.ldb = p.transpose_b ? p.k : p.n;
  if (p.ldc == 0) p.ldc = p.n;
  if (p.batch > 1) p.stride_c = p.m * p.ldc + 8;
  return p;
}

const GemmCase kCases[] = {
    {"square", {.m = 16, .n = 16, .k = 16}},
    {"odd", {.m = 17, .n = 31, .k = 13}},
    {"one_row", {.m = 1, .n = 33, .k = 65}},
    {"one_row_scaled", {.m = 1, .n = 33, .k = 65, .alpha = 0.5f, .beta = 2.0f}},
    {"one_column", {.m = 33, .n = 1, .k = 19}},
    {"one_element", {.m = 1, .n = 1, .k = 1}},
    {"transpose_a", {.m = 24, .n = 8, .k = 40, .transpose_a = true}},
    {"transpose_b", {.m = 24, .n = 8, .k = 40, .transpose_b = true}},
    {"transpose_both_odd", {.m = 5, .n = 7, .k = 11, .transpose_a = true, .transpose_b = true}},
    {"one_row_transposed", {.m = 1, .n = 12, .k = 20, .transpose_a = true, .transpose_b = true}},
    {"padded_rows", {.m = 9, .n = 12, .k = 10, .lda = 16, .ldb = 24, .ldc = 32}},
    {"padded_transposed",
     {.m = 9, .n = 12, .k = 10, .transpose_a = true, .transpose_b = true, .lda = 16, .ldb = 24, .ldc = 32}},
    {"alpha", {.m = 8, .n = 8, .k = 8, .alpha = 0.25f}},
    {"alpha_beta", {.m = 12, .n = 20, .k = 8, .alpha = 2.0f, .beta = 0.5f}},
    {"batch", {.m = 6, .n = 10, .k = 14, .batch = 5, .stride_a = 6 * 14 + 8, .stride_b = 14 * 10 + 8}},
    {"batch_shared_b", {.m = 6, .n = 10, .k = 14, .batch = 3, .stride_a = 6 * 14}},
    {"batch_shared_a_transposed", {.m = 6, .n = 10, .k = 14, .transpose_b = true, .batch = 3, .stride_b = 14 * 10}},
    {"bias", {.m = 16, .n = 24, .k = 8, .epilogue = Epilogue::kBias}},
    {"bias_odd_scaled", {.m = 7, .n = 5, .k = 9, .alpha = 0.5f, .beta = 1.0f, .epilogue = Epilogue::kBias}},
    {"bias_batch", {.m = 4, .n = 8, .k = 8, .batch = 2, .stride_a = 32, .epilogue = Epilogue::kBias}},
    {"large", {.m = 130, .n = 257, .k = 300}},
    {"tf32", {.m = 64, .n = 64, .k = 64, .allow_tf32 = true}},
};

int64_t StoredElems(int64_t rows, int64_t ld, int64_t stride, int64_t batch) {
  return rows * ld + stride * (batch - 1);
}

std::vector<double> Reference(const GemmProblem& p, bool with_bias, const std::vector<double>& a,
                              const std::vector<double>& b, std::vector<double> c, const std::vector<double>& bias) {
  for (int64_t i = 0; i < p.batch; ++i) {
    for (int64_t row = 0; row < p.m; ++row) {
      for (int64_t column = 0; column < p.n; ++column) {
        double sum = 0;
        for (int64_t k = 0; k < p.k; ++k) {
          const int64_t at_a = i * p.stride_a + (p.transpose_a ? k * p.lda + row : row * p.lda + k);
          const int64_t at_b = i * p.stride_b + (p.transpose_b ? column * p.ldb + k : k * p.ldb + column);
          sum += a[at_a] * b[at_b];
        }
        double& out = c[i * p.stride_c + row * p.ldc + column];
        // With beta 0 the old value must not be read: it may be NaN.
        out = p.alpha * sum + (p.beta == 0.0f ? 0.0 : p.beta * out) + (with_bias ? bias[column] : 0.0);
      }
    }
  }
  return c;
}

class GemmTest : public DeviceTest, public ::testing::WithParamInterface<std::tuple<GemmCase, DataType>> {
 protected:
  GemmProblem Problem() const {
    GemmProblem problem = Dense(std::get<0>(GetParam()).problem);
    problem.type = std::get<1>(GetParam());
    return problem;
  }
};

TEST_P(GemmTest, MatchesReference) {
  const GemmProblem p = Problem();
  auto handle = CreateHandle();
  CUDAEP_ASSERT_OK(handle.status());
  auto plan = MakePlan(**handle, p, 4 << 20);
  CUDAEP_ASSERT_OK(plan.status());

  const auto a = TestValues(StoredElems(p.transpose_a ? p.k : p.m, p.lda, p.stride_a, p.batch), 1);
  const auto b = TestValues(StoredElems(p.transpose_b ? p.n : p.k, p.ldb, p.stride_b, p.batch), 2);
  const auto c = TestValues(StoredElems(p.m, p.ldc, p.stride_c, p.batch), 3);
  const auto bias = TestValues(p.n, 4);
  GemmPointers at;
  at.a = Upload(p.type, a);
  at.b = Upload(p.type, b);
  at.c = Upload(p.type, c);
  at.bias = Upload(p.type, bias);
  at.workspace = Allocate((*plan)->workspace_bytes());
  CUDAEP_ASSERT_OK(Enqueue(**handle, **plan, at, stream()));
  const bool with_bias = p.epilogue == Epilogue::kBias && !(*plan)->needs_separate_bias();
  ExpectNear(p.type, Download(p.type, at.c, static_cast<int64_t>(c.size())), Reference(p, with_bias, a, b, c, bias));
}

std::string CaseName(const ::testing::TestParamInfo<std::tuple<GemmCase, DataType>>& info) {
  return std::string(std::get<0>(info.param).name) + "_" + std::string(DataTypeName(std::get<1>(info.param)));
}
INSTANTIATE_TEST_SUITE_P(Table, GemmTest,
                         ::testing::Combine(::testing::ValuesIn(kCases),
                                            ::testing::Values(DataType::kFloat, DataType::kFloat16, DataType::kBFloat16,
                                                              DataType::kDouble)),
                         CaseName);

using GemmBehaviourTest = DeviceTest;

TEST_F(GemmBehaviourTest, UninitialisedResultIsNotRead) {
  const GemmProblem p = Dense({.m = 3, .n = 4, .k = 2});
  auto handle = CreateHandle();
  CUDAEP_ASSERT_OK(handle.status());
  auto plan = MakePlan(**handle, p, 1 << 20);
  CUDAEP_ASSERT_OK(plan.status());
  const auto a = TestValues(6, 1), b = TestValues(8, 2);
  const GemmPointers at{Upload(p.type, a), Upload(p.type, b), Allocate(12 * 4), nullptr,
                        Allocate((*plan)->workspace_bytes())};
  CUDAEP_ASSERT_OK(Enqueue(**handle, **plan, at, stream()));
  ExpectNear(p.type, Download(p.type, at.c, 12), Reference(p, false, a, b, std::vector<double>(12, NAN), {}));
}

TEST_F(GemmBehaviourTest, PointersMayBeAlignedToOneElement) {
  const GemmProblem p = Dense({.type = DataType::kFloat16, .m = 8, .n = 8, .k = 8});
  auto handle = CreateHandle();
  CUDAEP_ASSERT_OK(handle.status());
  auto plan = MakePlan(**handle, p, 1 << 20);
  CUDAEP_ASSERT_OK(plan.status());
  const auto a = TestValues(65, 1), b = TestValues(65, 2);
  auto offset = [](void* pointer) { return static_cast<uint8_t*>(pointer) + 2; };
  GemmPointers at{offset(Upload(p.type, a)), offset(Upload(p.type, b)), offset(Allocate(65 * 2)), nullptr,
                  Allocate((*plan)->workspace_bytes())};
  CUDAEP_ASSERT_OK(Enqueue(**handle, **plan, at, stream()));
  const std::vector<double> inner_a(a.begin() + 1, a.end()), inner_b(b.begin() + 1, b.end());
  ExpectNear(p.type, Download(p.type, at.c, 64), Reference(p, false, inner_a, inner_b, std::vector<double>(64), {}));
}

TEST_F(GemmBehaviourTest, ReplaysWithChangedInputs) {
  const GemmProblem p = Dense({.m = 8, .n = 8, .k = 8, .epilogue = Epilogue::kBias});
  auto handle = CreateHandle();
  CUDAEP_ASSERT_OK(handle.status());
  auto plan = MakePlan(**handle, p, 1 << 20);
  CUDAEP_ASSERT_OK(plan.status());
  const auto a = TestValues(64, 1), b = TestValues(64, 2), bias = TestValues(8, 3), changed = TestValues(64, 4);
  void* device_a = Upload(p.type, a);
  const GemmPointers at{device_a, Upload(p.type, b), Allocate(64 * 4), Upload(p.type, bias),
                        Allocate((*plan)->workspace_bytes())};
  CUDAEP_ASSERT_OK(Enqueue(**handle, **plan, at, stream()));  // loads kernels before the capture
  CUDAEP_ASSERT_OK(device::StreamSynchronize(stream()));

  device::UniqueGraph graph;
  device::UniqueGraphExec exec;
  CUDAEP_ASSERT_OK(device::StreamBeginCapture(stream(), device::CaptureMode::kThreadLocal));
  CUDAEP_ASSERT_OK(Enqueue(**handle, **plan, at, stream()));
  CUDAEP_ASSERT_OK(device::StreamEndCapture(stream(), graph.Receive()));
  CUDAEP_ASSERT_OK(device::GraphInstantiate(exec.Receive(), graph.get()));
  const std::vector<uint8_t> bytes = Encode(p.type, changed);
  CUDAEP_ASSERT_OK(device::MemcpyAsync(device_a, bytes.data(), bytes.size(), stream()));
  CUDAEP_ASSERT_OK(device::GraphLaunch(exec.get(), stream()));
  const bool with_bias = !(*plan)->needs_separate_bias();
  ExpectNear(p.type, Download(p.type, at.c, 64), Reference(p, with_bias, changed, b, std::vector<double>(64), bias));
}

TEST_F(GemmBehaviourTest, VersionNamesTheLibrary) {
  auto version = Version();
  CUDAEP_ASSERT_OK(version.status());
  const bool simulated = std::string_view(device::BackendName()) == "simulated";
  EXPECT_NE(version->find(simulated ? "simulated" : "cuBLASLt 13."), std::string::npos) << *version;
}

}  // namespace
}  // namespace cudaep::blas
