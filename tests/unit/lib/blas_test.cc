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
  if (p.batches() == p.batch[0].size && p.batch[0].size > 1) p.batch[0].stride_c = p.m * p.ldc + 8;
  return p;
}

const GemmCase kCases[] = {
    {"square", {.m = 16, .n = 16, .k = 16}},
    {"odd", {.m = 17, .n = 31, .k = 13}},
    {"one_row", {.m = 1, .n = 33, .k = 65}},
    {"one_row_scaled", {.m = 1, .n = 33, .k = 65, .epilogue = {.alpha = 0.5f, .beta = 2.0f}}},
    {"one_column", {.m = 33, .n = 1, .k = 19}},
    {"one_element", {.m = 1, .n = 1, .k = 1}},
    {"transpose_a", {.m = 24, .n = 8, .k = 40, .transpose_a = true}},
    {"transpose_b", {.m = 24, .n = 8, .k = 40, .transpose_b = true}},
    {"transpose_both_odd", {.m = 5, .n = 7, .k = 11, .transpose_a = true, .transpose_b = true}},
    {"one_row_transposed", {.m = 1, .n = 12, .k = 20, .transpose_a = true, .transpose_b = true}},
    {"padded_rows", {.m = 9, .n = 12, .k = 10, .lda = 16, .ldb = 24, .ldc = 32}},
    {"padded_transposed",
     {.m = 9, .n = 12, .k = 10, .transpose_a = true, .transpose_b = true, .lda = 16, .ldb = 24, .ldc = 32}},
    {"alpha", {.m = 8, .n = 8, .k = 8, .epilogue = {.alpha = 0.25f}}},
    {"alpha_beta", {.m = 12, .n = 20, .k = 8, .epilogue = {.alpha = 2.0f, .beta = 0.5f}}},
    {"batch", {.m = 6, .n = 10, .k = 14, .batch = {{{.size = 5, .stride_a = 6 * 14 + 8, .stride_b = 14 * 10 + 8}}}}},
    {"batch_shared_b", {.m = 6, .n = 10, .k = 14, .batch = {{{.size = 3, .stride_a = 6 * 14}}}}},
    {"batch_shared_a_transposed",
     {.m = 6, .n = 10, .k = 14, .transpose_b = true, .batch = {{{.size = 3, .stride_b = 14 * 10}}}}},
    {"bias", {.m = 16, .n = 24, .k = 8, .epilogue = {.bias = true}}},
    {"bias_odd_scaled", {.m = 7, .n = 5, .k = 9, .epilogue = {.alpha = 0.5f, .beta = 1.0f, .bias = true}}},
    {"bias_batch", {.m = 4, .n = 8, .k = 8, .batch = {{{.size = 2, .stride_a = 32}}}, .epilogue = {.bias = true}}},
    {"residual", {.m = 24, .n = 32, .k = 16, .epilogue = {.beta = 1.0f}}},
    {"relu", {.m = 24, .n = 32, .k = 16, .epilogue = {.activation = Activation::kRelu}}},
    {"bias_residual_relu",
     {.m = 24, .n = 32, .k = 16, .epilogue = {.beta = 1.0f, .bias = true, .activation = Activation::kRelu}}},
    {"bias_gelu_tanh", {.m = 24, .n = 32, .k = 16, .epilogue = {.bias = true, .activation = Activation::kGeluTanh}}},
    {"bias_gelu_erf", {.m = 24, .n = 32, .k = 16, .epilogue = {.bias = true, .activation = Activation::kGeluErf}}},
    // [B,S,H,D] times its own transpose, over batch and heads.
    {"heads_inside_rows",
     {.m = 9,
      .n = 9,
      .k = 8,
      .transpose_b = true,
      .lda = 24,
      .ldb = 24,
      .ldc = 9,
      .batch = {{{2, 9 * 24, 9 * 24, 3 * 81}, {3, 8, 8, 81}}}}},
    {"three_batches_broadcast",
     {.m = 4,
      .n = 8,
      .k = 8,
      .batch = {{{2, 32, 0, 3 * 5 * 32}, {3, 0, 64, 5 * 32}, {5, 64, 192, 32}}},
      .epilogue = {.beta = 1.0f}}},
    {"large", {.m = 130, .n = 257, .k = 300}},
    {"tf32", {.m = 64, .n = 64, .k = 64, .allow_tf32 = true}},
};

int64_t StoredElems(const GemmProblem& p, int64_t rows, int64_t ld, int64_t BatchDim::*stride) {
  int64_t elems = rows * ld;
  for (const BatchDim& dim : p.batch) elems += dim.*stride * (dim.size - 1);
  return elems;
}

double Activated(Activation activation, double x) {
  switch (activation) {
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kGeluErf:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    default:
      return x;
  }
}

// What a call leaves in `c` that does `epilogue`; with beta the residual is what `c` held.
std::vector<double> Reference(const GemmProblem& p, const Epilogue& epilogue, const std::vector<double>& a,
                              const std::vector<double>& b, std::vector<double> c, const std::vector<double>& bias) {
  for (int64_t i = 0; i < p.batches(); ++i) {
    int64_t rest = i, from_a = 0, from_b = 0, to = 0;
    for (const BatchDim& dim : p.batch) {
      from_a += rest % dim.size * dim.stride_a;
      from_b += rest % dim.size * dim.stride_b;
      to += rest % dim.size * dim.stride_c;
      rest /= dim.size;
    }
    for (int64_t row = 0; row < p.m; ++row) {
      for (int64_t column = 0; column < p.n; ++column) {
        double sum = 0;
        for (int64_t k = 0; k < p.k; ++k) {
          const int64_t at_a = from_a + (p.transpose_a ? k * p.lda + row : row * p.lda + k);
          const int64_t at_b = from_b + (p.transpose_b ? column * p.ldb + k : k * p.ldb + column);
          sum += a[at_a] * b[at_b];
        }
        double& out = c[to + row * p.ldc + column];
        // Without a residual the old value must not be read: it may be NaN.
        out = epilogue.alpha * sum + (epilogue.residual() ? epilogue.beta * out : 0.0) +
              (epilogue.bias ? bias[column] : 0.0);
        out = Activated(epilogue.activation, out);
      }
    }
  }
  return c;
}

// What a plan does of its problem's epilogue.
Epilogue DoneBy(const GemmPlan& plan, const GemmProblem& p) {
  Epilogue done = p.epilogue;
  if (plan.remaining().bias) done.bias = false;
  if (plan.remaining().activation != Activation::kNone) done.activation = Activation::kNone;
  return done;
}

class GemmTest : public DeviceTest, public ::testing::WithParamInterface<std::tuple<GemmCase, DataType>> {
 protected:
  GemmProblem Problem() const {
    GemmProblem problem = Dense(std::get<0>(GetParam()).problem);
    problem.types = lib::MixedTypes::Of(std::get<1>(GetParam()));
    return problem;
  }
};

TEST_P(GemmTest, MatchesReference) {
  const GemmProblem p = Problem();
  auto handle = CreateHandle();
  CUDAEP_ASSERT_OK(handle.status());
  auto plan = MakePlan(**handle, p, 4 << 20);
  CUDAEP_ASSERT_OK(plan.status());

  const DataType type = p.types.a;
  const auto a = TestValues(StoredElems(p, p.transpose_a ? p.k : p.m, p.lda, &BatchDim::stride_a), 1);
  const auto b = TestValues(StoredElems(p, p.transpose_b ? p.n : p.k, p.ldb, &BatchDim::stride_b), 2);
  const auto c = TestValues(StoredElems(p, p.m, p.ldc, &BatchDim::stride_c), 3);
  const auto bias = TestValues(p.n, 4);
  GemmPointers at;
  at.a = Upload(type, a);
  at.b = Upload(type, b);
  at.bias = Upload(type, bias);
  at.workspace = Allocate((*plan)->workspace_bytes());
  const auto wanted = Reference(p, DoneBy(**plan, p), a, b, c, bias);
  at.residual = at.c = Upload(type, c);
  CUDAEP_ASSERT_OK(Enqueue(**handle, **plan, p.m, at, stream()));
  ExpectNear(type, Download(type, at.c, static_cast<int64_t>(c.size())), wanted);
  if (!p.epilogue.residual()) return;
  // A residual of its own: the same result, also where the old one was NaN. Gaps keep what they had.
  at.residual = Upload(type, c);
  at.c = Upload(type, c);
  CUDAEP_ASSERT_OK(Enqueue(**handle, **plan, p.m, at, stream()));
  ExpectNear(type, Download(type, at.c, static_cast<int64_t>(c.size())), wanted);
  ExpectNear(type, Download(type, at.residual, static_cast<int64_t>(c.size())), c);
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
  const GemmPointers at{.a = Upload(p.types.a, a),
                        .b = Upload(p.types.a, b),
                        .c = Allocate(12 * 4),
                        .workspace = Allocate((*plan)->workspace_bytes())};
  CUDAEP_ASSERT_OK(Enqueue(**handle, **plan, p.m, at, stream()));
  ExpectNear(p.types.a, Download(p.types.a, at.c, 12), Reference(p, {}, a, b, std::vector<double>(12, NAN), {}));
}

TEST_F(GemmBehaviourTest, PointersMayBeAlignedToOneElement) {
  const GemmProblem p = Dense({.types = lib::MixedTypes::Of(DataType::kFloat16), .m = 8, .n = 8, .k = 8});
  auto handle = CreateHandle();
  CUDAEP_ASSERT_OK(handle.status());
  auto plan = MakePlan(**handle, p, 1 << 20);
  CUDAEP_ASSERT_OK(plan.status());
  const auto a = TestValues(65, 1), b = TestValues(65, 2);
  auto offset = [](void* pointer) { return static_cast<uint8_t*>(pointer) + 2; };
  GemmPointers at{.a = offset(Upload(p.types.a, a)),
                  .b = offset(Upload(p.types.a, b)),
                  .c = offset(Allocate(65 * 2)),
                  .workspace = Allocate((*plan)->workspace_bytes())};
  CUDAEP_ASSERT_OK(Enqueue(**handle, **plan, p.m, at, stream()));
  const std::vector<double> inner_a(a.begin() + 1, a.end()), inner_b(b.begin() + 1, b.end());
  ExpectNear(p.types.a, Download(p.types.a, at.c, 64), Reference(p, {}, inner_a, inner_b, std::vector<double>(64), {}));
}

TEST_F(GemmBehaviourTest, ReplaysWithChangedInputs) {
  const GemmProblem p = Dense({.m = 8, .n = 8, .k = 8, .epilogue = {.bias = true}});
  auto handle = CreateHandle();
  CUDAEP_ASSERT_OK(handle.status());
  auto plan = MakePlan(**handle, p, 1 << 20);
  CUDAEP_ASSERT_OK(plan.status());
  const auto a = TestValues(64, 1), b = TestValues(64, 2), bias = TestValues(8, 3), changed = TestValues(64, 4);
  void* device_a = Upload(p.types.a, a);
  const GemmPointers at{.a = device_a,
                        .b = Upload(p.types.a, b),
                        .c = Allocate(64 * 4),
                        .bias = Upload(p.types.a, bias),
                        .workspace = Allocate((*plan)->workspace_bytes())};
  CUDAEP_ASSERT_OK(Enqueue(**handle, **plan, p.m, at, stream()));  // loads kernels before the capture
  CUDAEP_ASSERT_OK(device::StreamSynchronize(stream()));

  device::UniqueGraph graph;
  device::UniqueGraphExec exec;
  CUDAEP_ASSERT_OK(device::StreamBeginCapture(stream(), device::CaptureMode::kThreadLocal));
  CUDAEP_ASSERT_OK(Enqueue(**handle, **plan, p.m, at, stream()));
  CUDAEP_ASSERT_OK(device::StreamEndCapture(stream(), graph.Receive()));
  CUDAEP_ASSERT_OK(device::GraphInstantiate(exec.Receive(), graph.get()));
  const std::vector<uint8_t> bytes = Encode(p.types.a, changed);
  CUDAEP_ASSERT_OK(device::MemcpyAsync(device_a, bytes.data(), bytes.size(), stream()));
  CUDAEP_ASSERT_OK(device::GraphLaunch(exec.get(), stream()));
  ExpectNear(p.types.a, Download(p.types.a, at.c, 64),
             Reference(p, DoneBy(**plan, p), changed, b, std::vector<double>(64), bias));
}

TEST_F(GemmBehaviourTest, Int8GivesInt32) {
  const GemmProblem p = Dense({.types = lib::MixedTypes::Of(DataType::kInt8), .m = 16, .n = 32, .k = 64});
  auto handle = CreateHandle();
  CUDAEP_ASSERT_OK(handle.status());
  auto plan = MakePlan(**handle, p, 1 << 20);
#if !defined(CUDAEP_SIMULATED_DEVICE)  // which has every type that a library may have
  if (plan.status().code() == StatusCode::kNotSupported) GTEST_SKIP() << plan.status().message();
#endif
  CUDAEP_ASSERT_OK(plan.status());
  std::vector<int8_t> a(16 * 64), b(64 * 32);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<int8_t>(i * 37 % 255 - 127);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<int8_t>(i * 91 % 255 - 127);
  void *device_a = Allocate(a.size()), *device_b = Allocate(b.size());
  Check(device::MemcpyAsync(device_a, a.data(), a.size(), stream()));
  Check(device::MemcpyAsync(device_b, b.data(), b.size(), stream()));
  const GemmPointers at{
      .a = device_a, .b = device_b, .c = Allocate(16 * 32 * 4), .workspace = Allocate((*plan)->workspace_bytes())};
  CUDAEP_ASSERT_OK(Enqueue(**handle, **plan, p.m, at, stream()));
  std::vector<int32_t> c(16 * 32);
  Check(device::MemcpyAsync(c.data(), at.c, c.size() * 4, stream()));
  Check(device::StreamSynchronize(stream()));
  for (size_t row = 0; row < 16; ++row) {
    for (size_t column = 0; column < 32; ++column) {
      int32_t want = 0;
      for (size_t k = 0; k < 64; ++k) want += a[row * 64 + k] * b[k * 32 + column];
      ASSERT_EQ(c[row * 32 + column], want) << row << ' ' << column;
    }
  }
}

TEST_F(GemmBehaviourTest, EachCandidateGivesTheResultAndComesBackByItsName) {
  const GemmProblem p = Dense({.types = lib::MixedTypes::Of(DataType::kFloat16),
                               .m = 64,
                               .n = 64,
                               .k = 128,
                               .epilogue = {.bias = true, .activation = Activation::kRelu}});
  auto handle = CreateHandle();
  CUDAEP_ASSERT_OK(handle.status());
  const auto choices = Candidates(**handle, p, 4 << 20, 8);
  CUDAEP_ASSERT_OK(choices.status());
  ASSERT_GE(choices.value().size(), 2u);
  const auto a = TestValues(64 * 128, 1), b = TestValues(128 * 64, 2), bias = TestValues(64, 3);
  for (const std::string& choice : choices.value()) {
    SCOPED_TRACE(choice);
    auto plan = MakePlan(**handle, p, 4 << 20, choice);
    CUDAEP_ASSERT_OK(plan.status());
    EXPECT_EQ((*plan)->choice(), choice);
    const GemmPointers at{.a = Upload(p.types.a, a),
                          .b = Upload(p.types.a, b),
                          .c = Allocate(64 * 64 * 2),
                          .bias = Upload(p.types.a, bias),
                          .workspace = Allocate((*plan)->workspace_bytes())};
    CUDAEP_ASSERT_OK(Enqueue(**handle, **plan, p.m, at, stream()));
    ExpectNear(p.types.a, Download(p.types.a, at.c, 64 * 64),
               Reference(p, DoneBy(**plan, p), a, b, std::vector<double>(64 * 64), bias));
  }
  for (const char* wrong : {"lt9.1", "lt0.1.2", "nothing", "lt0.1.2.3.4.5.6.7.x"}) {
    EXPECT_EQ(MakePlan(**handle, p, 4 << 20, wrong).status().code(), StatusCode::kInvalidArgument) << wrong;
  }
}

TEST_F(GemmBehaviourTest, APlanOfManyRowsRunsFewer) {
  const GemmProblem whole = Dense({.types = lib::MixedTypes::Of(DataType::kFloat16),
                                   .m = 128,
                                   .n = 64,
                                   .k = 96,
                                   .epilogue = {.beta = 1.0f, .bias = true}});
  auto handle = CreateHandle();
  CUDAEP_ASSERT_OK(handle.status());
  auto plan = MakePlan(**handle, whole, 4 << 20);
  CUDAEP_ASSERT_OK(plan.status());
  GemmProblem p = whole;
  p.m = 113;
  ASSERT_TRUE(Covers(**handle, **plan, p));
  const auto a = TestValues(p.m * p.k, 1), b = TestValues(p.k * p.n, 2), bias = TestValues(p.n, 3);
  const auto c = TestValues(whole.m * p.n, 4);
  GemmPointers at{.a = Upload(p.types.a, a),
                  .b = Upload(p.types.a, b),
                  .c = Upload(p.types.a, c),
                  .bias = Upload(p.types.a, bias),
                  .workspace = Allocate((*plan)->workspace_bytes())};
  at.residual = at.c;
  CUDAEP_ASSERT_OK(Enqueue(**handle, **plan, p.m, at, stream()));
  ExpectNear(p.types.a, Download(p.types.a, at.c, static_cast<int64_t>(c.size())),
             Reference(p, DoneBy(**plan, p), a, b, c, bias));
  p.m = 129;
  EXPECT_FALSE(Covers(**handle, **plan, p));
  p = whole;
  p.epilogue.bias = false;
  EXPECT_FALSE(Covers(**handle, **plan, p));
}

TEST_F(GemmBehaviourTest, VersionNamesTheLibrary) {
  auto version = Version();
  CUDAEP_ASSERT_OK(version.status());
  const bool simulated = std::string_view(device::BackendName()) == "simulated";
  EXPECT_NE(version->find(simulated ? "simulated" : "cuBLASLt 13."), std::string::npos) << *version;
}

}  // namespace
}  // namespace cudaep::blas
