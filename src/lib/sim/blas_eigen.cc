// blas.h on the simulated device: Eigen in the queue of a stream, 16-bit types by way of fp32.
//
// Of the epilogue it fuses what cuBLASLt does, so that the rest meets the same finisher. Its two algorithms differ in
// the workspace they take.
#include <cstring>
#include <vector>

#include "core/float16.h"
#include "core/strings.h"
#include "device/sim/sim.h"
#include "lib/blas.h"
#include "lib/problem_check.h"
#include "lib/sim/host_activation.h"
#include "lib/sim/host_gemm.h"

namespace cudaep::blas {
namespace {

// Written by every call, so that callers who pass live memory get noticed. By algorithm; the first takes what the real
// library takes at least.
constexpr size_t kWorkspaceBytes[] = {1024, 0};

class SimHandle final : public Handle {};

bool IsFused(Activation activation) {
  return activation == Activation::kNone || activation == Activation::kRelu || activation == Activation::kGeluTanh;
}

class SimPlan final : public GemmPlan {
 public:
  SimPlan(const GemmProblem& whole, size_t algorithm) : problem(whole) {
    workspace_bytes_ = kWorkspaceBytes[algorithm];
    if (IsAlgorithmFixed(whole)) alignment_ = 16;
    choice_ = StrCat("eigen", algorithm);
    if (!IsFused(whole.epilogue.activation)) {
      remaining_.activation = whole.epilogue.activation;
      remaining_.parameters = whole.epilogue.parameters;
      fused.activation = Activation::kNone;
      fused.parameters = {};
    }
    if (whole.types.c == DataType::kInt32 && whole.epilogue.bias) {
      remaining_.bias = true;
      fused.bias = false;
    }
  }
  const GemmProblem problem;
  Epilogue fused = problem.epilogue;
};

// A stored matrix of `rows` x `columns` in the compute type, without gaps between rows.
template <class T, class C>
void Widen(const T* source, int64_t rows, int64_t columns, int64_t ld, std::vector<C>* out) {
  out->resize(static_cast<size_t>(rows * columns));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) (*out)[static_cast<size_t>(r * columns + c)] = C(Load(source[r * ld + c]));
  }
}

// One matrix: summed in the compute type, finished and rounded once. `T` is of A and B, `R` of the rest.
template <class T, class R, class C>
void RunMatrix(const GemmProblem& p, const Epilogue& e, const GemmPointers& at, std::vector<C> (&scratch)[3]) {
  const int64_t a_rows = p.transpose_a ? p.k : p.m, a_columns = p.transpose_a ? p.m : p.k;
  const int64_t b_rows = p.transpose_b ? p.n : p.k, b_columns = p.transpose_b ? p.k : p.n;
  auto& [a, b, sums] = scratch;
  sim::HostGemm<C> gemm{.m = p.m, .n = p.n, .k = p.k};
  gemm.transpose_a = p.transpose_a, gemm.transpose_b = p.transpose_b;
  if constexpr (std::is_same_v<T, C>) {
    gemm.a = static_cast<const T*>(at.a), gemm.lda = p.lda;
    gemm.b = static_cast<const T*>(at.b), gemm.ldb = p.ldb;
  } else {
    Widen(static_cast<const T*>(at.a), a_rows, a_columns, p.lda, &a);
    Widen(static_cast<const T*>(at.b), b_rows, b_columns, p.ldb, &b);
    gemm.a = a.data(), gemm.lda = a_columns;
    gemm.b = b.data(), gemm.ldb = b_columns;
  }
  R* const result = static_cast<R*>(at.c);
  if constexpr (std::is_same_v<R, C>) {
    if (e.empty()) {
      gemm.c = result, gemm.ldc = p.ldc;
      return sim::Multiply(gemm);
    }
  }
  sums.resize(static_cast<size_t>(p.m * p.n));
  gemm.c = sums.data(), gemm.ldc = p.n;
  sim::Multiply(gemm);
  const R *const bias = static_cast<const R*>(at.bias), *const residual = static_cast<const R*>(at.residual);
  for (int64_t row = 0; row < p.m; ++row) {
    for (int64_t column = 0; column < p.n; ++column) {
      C value = static_cast<C>(e.alpha) * sums[static_cast<size_t>(row * p.n + column)];
      if (e.residual()) value += static_cast<C>(e.beta) * C(Load(residual[row * p.ldc + column]));
      if (e.bias) value += C(Load(bias[column]));
      if constexpr (std::is_floating_point_v<C>) value = sim::Activate(e.activation, value);
      result[row * p.ldc + column] = Store<R>(value);
    }
  }
}

template <class T, class R, class C>
void RunAs(const GemmProblem& p, const Epilogue& e, const GemmPointers& at) {
  std::vector<C> scratch[3];
  const auto [x, y, z] = p.batch;
  for (int64_t i = 0; i < x.size; ++i) {
    for (int64_t j = 0; j < y.size; ++j) {
      for (int64_t k = 0; k < z.size; ++k) {
        const int64_t c = i * x.stride_c + j * y.stride_c + k * z.stride_c;
        GemmPointers one = at;
        one.a = static_cast<const T*>(at.a) + i * x.stride_a + j * y.stride_a + k * z.stride_a;
        one.b = static_cast<const T*>(at.b) + i * x.stride_b + j * y.stride_b + k * z.stride_b;
        one.c = static_cast<R*>(at.c) + c;
        if (e.residual()) one.residual = static_cast<const R*>(at.residual) + c;
        RunMatrix<T, R, C>(p, e, one, scratch);
      }
    }
  }
}

void Run(const GemmProblem& p, const Epilogue& e, const GemmPointers& at, size_t workspace_bytes) {
  if (workspace_bytes != 0) std::memset(at.workspace, 0xA5, workspace_bytes);
  switch (p.types.a) {
    case DataType::kFloat16:
      return RunAs<Half, Half, float>(p, e, at);
    case DataType::kBFloat16:
      return RunAs<BFloat16, BFloat16, float>(p, e, at);
    case DataType::kDouble:
      return RunAs<double, double, double>(p, e, at);
    case DataType::kInt8:
      return RunAs<int8_t, int32_t, int32_t>(p, e, at);
    default:
      return RunAs<float, float, float>(p, e, at);
  }
}

}  // namespace

Result<std::string> Version() { return std::string("Eigen (simulated cuBLASLt)"); }

Result<std::unique_ptr<Handle>> CreateHandle() {
  if (!sim::HostCpuSupported()) return NotSupported("The simulated device needs a processor with AVX2 and FMA.");
  return std::unique_ptr<Handle>(std::make_unique<SimHandle>());
}

Result<std::vector<std::string>> Candidates(Handle&, const GemmProblem& problem, size_t workspace_limit_bytes,
                                            size_t most) {
  CUDAEP_RETURN_IF_ERROR(CheckProblem(problem));
  std::vector<std::string> choices;
  for (size_t i = 0; i < std::size(kWorkspaceBytes) && choices.size() < most; ++i) {
    if (kWorkspaceBytes[i] <= workspace_limit_bytes) choices.push_back(StrCat("eigen", i));
  }
  return choices;
}

Result<std::unique_ptr<const GemmPlan>> MakePlan(Handle& handle, const GemmProblem& problem,
                                                 size_t workspace_limit_bytes, const std::string& choice) {
  CUDAEP_ASSIGN_OR_RETURN(const auto choices, Candidates(handle, problem, workspace_limit_bytes, SIZE_MAX));
  for (size_t i = 0; i < std::size(kWorkspaceBytes); ++i) {
    const std::string name = StrCat("eigen", i);
    const bool fits = kWorkspaceBytes[i] <= workspace_limit_bytes;
    if (choice.empty() ? fits : choice == name) {
      if (fits) return std::unique_ptr<const GemmPlan>(std::make_unique<const SimPlan>(problem, i));
      return NotSupported(ProblemText(problem), ": ", name, " wants ", kWorkspaceBytes[i], " bytes of workspace");
    }
  }
  return InvalidArgument('\'', choice, "' names no algorithm of the simulated cuBLASLt");
}

bool Covers(Handle&, const GemmPlan& plan, const GemmProblem& problem) {
  const GemmProblem& whole = static_cast<const SimPlan&>(plan).problem;
  GemmProblem same = problem;
  same.m = whole.m;
  return same == whole &&
         (problem.m == whole.m || (problem.m < whole.m && !problem.transpose_a && problem.batches() == 1));
}

Status Enqueue(Handle&, const GemmPlan& base_plan, int64_t m, const GemmPointers& pointers, device::Stream stream) {
  const auto& plan = static_cast<const SimPlan&>(base_plan);
  GemmProblem problem = plan.problem;
  problem.m = m;
  const size_t workspace_bytes = plan.workspace_bytes();
  if (workspace_bytes != 0 && pointers.workspace == nullptr) {
    return InvalidArgument(ProblemText(problem), ": the plan needs a workspace, but none was given");
  }
  if (AddressBits(pointers, plan.fused.bias, plan.fused.residual()) % plan.alignment() != 0) {
    return NotSupported(ProblemText(problem), ": tensors must be aligned to ", plan.alignment(), " bytes");
  }
  // An operand that is not used repeats A, so that lists stay of fixed size.
  const void* reads[] = {pointers.a, pointers.b, plan.fused.bias ? pointers.bias : pointers.a,
                         plan.fused.residual() ? pointers.residual : pointers.a};
  void* writes[] = {pointers.c, pointers.workspace};
  return device::sim::EnqueueHostWork(
      stream, ProblemText(problem),
      [problem, fused = plan.fused, pointers, workspace_bytes] { Run(problem, fused, pointers, workspace_bytes); },
      reads, std::span<void* const>(writes, workspace_bytes != 0 ? 2 : 1));
}

}  // namespace cudaep::blas
