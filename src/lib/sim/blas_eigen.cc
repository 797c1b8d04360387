// blas.h on the simulated device: Eigen in the queue of a stream, 16-bit types by way of fp32.
#include <cstring>
#include <vector>

#include "core/float16.h"
#include "device/sim/sim.h"
#include "lib/blas.h"
#include "lib/problem_check.h"
#include "lib/sim/host_gemm.h"

namespace cudaep::blas {
namespace {

// What the real library takes at least; written by every call, so that callers who pass live memory get noticed.
constexpr size_t kWorkspaceBytes = 1024;

class SimHandle final : public Handle {};

class SimPlan final : public GemmPlan {
 public:
  SimPlan(const GemmProblem& problem, size_t workspace_bytes) : problem(problem) { workspace_bytes_ = workspace_bytes; }
  const GemmProblem problem;
};

// A stored matrix of `rows` x `columns` as fp32, without gaps between rows.
template <class T>
void Widen(const T* source, int64_t rows, int64_t columns, int64_t ld, std::vector<float>* out) {
  out->resize(static_cast<size_t>(rows * columns));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) (*out)[r * columns + c] = ToFloat(source[r * ld + c]);
  }
}

template <class T>
void AddBias(const GemmProblem& p, const T* bias, T* c) {
  for (int64_t row = 0; row < p.m; ++row) {
    for (int64_t column = 0; column < p.n; ++column) c[row * p.ldc + column] += bias[column];
  }
}

// float and double: in place.
template <class T>
void RunDirect(const GemmProblem& p, const GemmPointers& at) {
  for (int64_t i = 0; i < p.batch; ++i) {
    T* c = static_cast<T*>(at.c) + i * p.stride_c;
    sim::Multiply(sim::HostGemm<T>{p.m, p.n, p.k, static_cast<const T*>(at.a) + i * p.stride_a, p.lda, p.transpose_a,
                                   static_cast<const T*>(at.b) + i * p.stride_b, p.ldb, p.transpose_b, c, p.ldc,
                                   static_cast<T>(p.alpha), static_cast<T>(p.beta)});
    if (p.epilogue == Epilogue::kBias) AddBias(p, static_cast<const T*>(at.bias), c);
  }
}

// 16-bit types: widened, multiplied, biased and rounded once.
template <class T>
void RunWidened(const GemmProblem& p, const GemmPointers& at) {
  std::vector<float> a, b, c, bias;
  const int64_t a_rows = p.transpose_a ? p.k : p.m, a_columns = p.transpose_a ? p.m : p.k;
  const int64_t b_rows = p.transpose_b ? p.n : p.k, b_columns = p.transpose_b ? p.k : p.n;
  if (p.epilogue == Epilogue::kBias) Widen(static_cast<const T*>(at.bias), 1, p.n, p.n, &bias);
  c.resize(static_cast<size_t>(p.m * p.n));
  for (int64_t i = 0; i < p.batch; ++i) {
    T* result = static_cast<T*>(at.c) + i * p.stride_c;
    if (i == 0 || p.stride_a != 0) {
      Widen(static_cast<const T*>(at.a) + i * p.stride_a, a_rows, a_columns, p.lda, &a);
    }
    if (i == 0 || p.stride_b != 0) {
      Widen(static_cast<const T*>(at.b) + i * p.stride_b, b_rows, b_columns, p.ldb, &b);
    }
    if (p.beta != 0.0f) Widen(result, p.m, p.n, p.ldc, &c);
    sim::Multiply(sim::HostGemm<float>{p.m, p.n, p.k, a.data(), a_columns, p.transpose_a, b.data(), b_columns,
                                       p.transpose_b, c.data(), p.n, p.alpha, p.beta});
    for (int64_t row = 0; row < p.m; ++row) {
      for (int64_t column = 0; column < p.n; ++column) {
        const float value = c[row * p.n + column] + (bias.empty() ? 0.0f : bias[column]);
        result[row * p.ldc + column] = Store<T>(value);
      }
    }
  }
}

void Run(const GemmProblem& p, const GemmPointers& at, size_t workspace_bytes) {
  if (workspace_bytes != 0) std::memset(at.workspace, 0xA5, workspace_bytes);
  switch (p.type) {
    case DataType::kFloat16:
      return RunWidened<Half>(p, at);
    case DataType::kBFloat16:
      return RunWidened<BFloat16>(p, at);
    case DataType::kDouble:
      return RunDirect<double>(p, at);
    default:
      return RunDirect<float>(p, at);
  }
}

}  // namespace

Result<std::string> Version() { return std::string("Eigen (simulated cuBLASLt)"); }

Result<std::unique_ptr<Handle>> CreateHandle() {
  if (!sim::HostCpuSupported()) return NotSupported("The simulated device needs a processor with AVX2 and FMA.");
  return std::unique_ptr<Handle>(std::make_unique<SimHandle>());
}

Result<std::unique_ptr<const GemmPlan>> MakePlan(Handle&, const GemmProblem& problem, size_t workspace_limit_bytes) {
  CUDAEP_RETURN_IF_ERROR(CheckProblem(problem));
  const size_t workspace_bytes = workspace_limit_bytes >= kWorkspaceBytes ? kWorkspaceBytes : 0;
  return std::unique_ptr<const GemmPlan>(std::make_unique<const SimPlan>(problem, workspace_bytes));
}

Status Enqueue(Handle&, const GemmPlan& plan, const GemmPointers& pointers, device::Stream stream) {
  const GemmProblem& problem = static_cast<const SimPlan&>(plan).problem;
  const size_t workspace_bytes = plan.workspace_bytes();
  const bool bias = problem.epilogue == Epilogue::kBias;
  if (workspace_bytes != 0 && pointers.workspace == nullptr) {
    return InvalidArgument(ProblemText(problem), ": the plan needs a workspace, but none was given");
  }
  // An operand that is not used repeats A, so that lists stay of fixed size.
  const void* reads[] = {pointers.a, pointers.b, bias ? pointers.bias : pointers.a,
                         problem.beta != 0.0f ? pointers.c : pointers.a};
  void* writes[] = {pointers.c, pointers.workspace};
  return device::sim::EnqueueHostWork(
      stream, ProblemText(problem), [=] { Run(problem, pointers, workspace_bytes); }, reads,
      std::span<void* const>(writes, workspace_bytes != 0 ? 2 : 1));
}

}  // namespace cudaep::blas
