// blas.h by cuBLASLt.
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/strings.h"
#include "lib/cuda/device_state.h"
#include "lib/cuda/lt_descriptors.h"
#include "lib/problem_check.h"

namespace cudaep::blas {
namespace {

struct HandleTraits {
  using Type = cublasLtHandle_t;
  static Type Null() { return nullptr; }
  static void Release(Type handle) { LoadedCublasLt()->cublasLtDestroy(handle); }
};

class LtHandle final : public Handle {
 public:
  explicit LtHandle(const CublasLtApi& api) : api(api) {}
  const CublasLtApi& api;
  UniqueHandle<HandleTraits> handle;
};

// Allocators give 256 bytes; slices of packed tensors often 16; anything else is rare but must work.
constexpr size_t kAlignmentClasses = 3;
size_t AlignmentOf(const GemmProblem& p, size_t alignment_class) {
  const size_t element = std::max(SizeOf(p.types.a), size_t{1});
  const std::array<size_t, kAlignmentClasses> bytes{256, 16, element};
  return bytes[alignment_class];
}

// The batch dimensions that are repeated by further calls.
std::array<BatchDim, 2> CallDims(const GemmProblem& p) {
  const auto inner = static_cast<size_t>(LibraryBatchOf(p));
  return {p.batch[(inner + 1) % 3], p.batch[(inner + 2) % 3]};
}

// Low bits of the bytes between the tensors of one call and of the next: they cost alignment as low bits of an address
// do. Of one library call, it is the layouts that tell the strides.
uintptr_t CallStrideBits(const GemmProblem& p) {
  const int64_t size_a = static_cast<int64_t>(SizeOf(p.types.a)), size_c = static_cast<int64_t>(SizeOf(p.types.c));
  int64_t bits = 0;
  for (const BatchDim& dim : CallDims(p)) {
    if (dim.size > 1) bits |= dim.stride_a * size_a | dim.stride_b * size_a | dim.stride_c * size_c;
  }
  return static_cast<uintptr_t>(bits);
}

// The class that a plan's first algorithm is for. Of a fixed algorithm it is the only one: that of tensors at 16 bytes,
// where callers can bring them to (GemmPlan::alignment), unless strides keep later calls from it.
size_t FirstClassOf(const GemmProblem& p) {
  if (!IsAlgorithmFixed(p)) return 0;
  return (CallStrideBits(p) & 15) == 0 ? 1 : 2;
}

struct Algorithm {
  cublasLtMatmulAlgo_t algo{};
  size_t workspace_bytes = 0;
};

class LtPlan final : public GemmPlan {
 public:
  LtPlan(const GemmProblem& problem, LtForm form, const LtDescriptors& descriptors, const Algorithm& first)
      : problem(problem),
        form(form),
        descriptors(descriptors),
        scales(problem),
        stride_bits(CallStrideBits(problem)),
        first_class(FirstClassOf(problem)) {
    workspace_bytes_ = first.workspace_bytes;
    remaining_ = RemainingOf(problem, form);
    if (first_class == 1) alignment_ = AlignmentOf(problem, 1);
    algorithms[first_class].store(new Algorithm(first));
    choice_ = StrCat("lt", static_cast<int>(form));
    for (uint64_t word : first.algo.data) choice_ += StrCat('.', word);
  }
  ~LtPlan() override {
    for (auto& algorithm : algorithms) delete algorithm.load();
  }

  const GemmProblem problem;
  const LtForm form;
  const LtDescriptors descriptors;
  const LtScales scales;
  const uintptr_t stride_bits;
  const size_t first_class;
  // By alignment class. That of first_class is made with the plan, the others when pointers need them.
  mutable std::array<std::atomic<const Algorithm*>, kAlignmentClasses> algorithms{};
};

template <class Value>
Status SetPreference(const CublasLtApi& api, cublasLtMatmulPreferenceOpaque_t* preference,
                     cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
  return ToStatus(api, api.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
                  "cublasLtMatmulPreferenceSetAttribute");
}

// The library's algorithms for pointers aligned to `alignment`, at most `most`; none when it has none.
Result<std::vector<Algorithm>> AskHeuristic(const LtHandle& handle, const GemmProblem& p, LtDescriptors descriptors,
                                            size_t workspace_limit, size_t alignment, size_t most) {
  const CublasLtApi& api = handle.api;
  cublasLtMatmulPreferenceOpaque_t preference{};
  CUDAEP_RETURN_IF_ERROR(ToStatus(api, api.cublasLtMatmulPreferenceInit_internal(&preference, sizeof(preference)),
                                  "cublasLtMatmulPreferenceInit"));
  CUDAEP_RETURN_IF_ERROR(
      SetPreference(api, &preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{workspace_limit}));
  for (auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                         CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    CUDAEP_RETURN_IF_ERROR(SetPreference(api, &preference, attribute, static_cast<uint32_t>(alignment)));
  }
  CUDAEP_RETURN_IF_ERROR(descriptors.SetBias(api, reinterpret_cast<const void*>(alignment)));
  if (kFloat16Types.Contains(p.types.c) || p.deterministic) {
    // Split-K partial sums stay in fp32 and are added in one order: the other schemes add them up in the output, of 16
    // bits or as they come.
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    CUDAEP_RETURN_IF_ERROR(SetPreference(api, &preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes));
  }
  std::vector<cublasLtMatmulHeuristicResult_t> found(most);
  int count = 0;
  const cublasStatus_t status = api.cublasLtMatmulAlgoGetHeuristic(
      handle.handle.get(), &descriptors.operation, &descriptors.first, &descriptors.second, &descriptors.result,
      &descriptors.result, &preference, static_cast<int>(most), found.data(), &count);
  std::vector<Algorithm> algorithms;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return algorithms;
  CUDAEP_RETURN_IF_ERROR(ToStatus(api, status, "cublasLtMatmulAlgoGetHeuristic"));
  for (int i = 0; i < count; ++i) {
    const auto& result = found[static_cast<size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back({result.algo, result.workspaceSize});
  }
  return algorithms;
}

// Workspace bytes of an algorithm that can run the problem of these descriptors.
Result<size_t> CheckAlgorithm(const LtHandle& handle, LtDescriptors d, const cublasLtMatmulAlgo_t& algo,
                              size_t alignment) {
  const CublasLtApi& api = handle.api;
  CUDAEP_RETURN_IF_ERROR(d.SetBias(api, reinterpret_cast<const void*>(alignment)));
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = api.cublasLtMatmulAlgoCheck(handle.handle.get(), &d.operation, &d.first, &d.second,
                                                            &d.result, &d.result, &algo, &result);
  if (status != CUBLAS_STATUS_SUCCESS) {
    return NotSupported("cublasLtMatmulAlgoCheck: ", std::string_view(api.cublasLtGetStatusString(status)));
  }
  return result.workspaceSize;
}

Status CheckSizes(const GemmProblem& problem) {
  CUDAEP_RETURN_IF_ERROR(CheckProblem(problem));
  if (problem.batch[static_cast<size_t>(LibraryBatchOf(problem))].size > std::numeric_limits<int32_t>::max()) {
    return NotSupported(ProblemText(problem), ": cuBLASLt counts batches with 32 bits");
  }
  const auto is_whole = [](float value) { return std::abs(value) < 0x1p31f && value == std::trunc(value); };
  if (problem.types.compute == DataType::kInt32 &&
      !(is_whole(problem.epilogue.alpha) && is_whole(problem.epilogue.beta))) {
    return NotSupported(ProblemText(problem), ": integers are scaled by whole numbers only");
  }
  return Status::Ok();
}

// The plans of the fullest form that the library has algorithms for.
Result<std::vector<std::unique_ptr<const GemmPlan>>> PlansOf(const LtHandle& lt, const GemmProblem& problem,
                                                             size_t limit, size_t most) {
  std::vector<std::unique_ptr<const GemmPlan>> plans;
  const size_t alignment = AlignmentOf(problem, FirstClassOf(problem));
  for (LtForm form : kLtForms) {
    if (!IsOffered(problem, form)) continue;
    CUDAEP_ASSIGN_OR_RETURN(const LtDescriptors descriptors, Describe(lt.api, problem, form));
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<Algorithm> algorithms,
                            AskHeuristic(lt, problem, descriptors, limit, alignment, most));
    for (const Algorithm& algorithm : algorithms) {
      plans.push_back(std::make_unique<const LtPlan>(problem, form, descriptors, algorithm));
    }
    if (!plans.empty()) break;
  }
  return plans;
}

Result<std::unique_ptr<const GemmPlan>> PlanOfChoice(const LtHandle& lt, const GemmProblem& problem, size_t limit,
                                                     const std::string& choice) {
  const auto malformed = [&] { return InvalidArgument('\'', choice, "' names no algorithm of cuBLASLt"); };
  const char* at = choice.data();
  const char* const end = at + choice.size();
  int form = -1;
  if (!choice.starts_with("lt")) return malformed();
  at += 2;
  if (auto read = std::from_chars(at, end, form); read.ec != std::errc())
    return malformed();
  else
    at = read.ptr;
  if (form < 0 || form > static_cast<int>(LtForm::kSumOnly) || !IsOffered(problem, static_cast<LtForm>(form))) {
    return malformed();
  }
  Algorithm algorithm;
  for (uint64_t& word : algorithm.algo.data) {
    if (at == end || *at != '.') return malformed();
    const auto read = std::from_chars(at + 1, end, word);
    if (read.ec != std::errc()) return malformed();
    at = read.ptr;
  }
  if (at != end) return malformed();
  CUDAEP_ASSIGN_OR_RETURN(const LtDescriptors descriptors, Describe(lt.api, problem, static_cast<LtForm>(form)));
  CUDAEP_ASSIGN_OR_RETURN(algorithm.workspace_bytes,
                          CheckAlgorithm(lt, descriptors, algorithm.algo, AlignmentOf(problem, FirstClassOf(problem))));
  if (algorithm.workspace_bytes > limit) {
    return NotSupported(ProblemText(problem), ": the chosen algorithm wants ", algorithm.workspace_bytes,
                        " bytes of workspace");
  }
  return std::unique_ptr<const GemmPlan>(
      std::make_unique<const LtPlan>(problem, static_cast<LtForm>(form), descriptors, algorithm));
}

// The algorithm for pointers of this alignment; the first thread that needs one asks the library.
Result<const Algorithm*> AlgorithmFor(const LtHandle& lt, const LtPlan& plan, const GemmPointers& pointers) {
  const auto bits = AddressBits(pointers, plan.descriptors.fused_bias, plan.problem.epilogue.residual());
  size_t alignment_class = plan.first_class;
  if (!IsAlgorithmFixed(plan.problem)) {
    const auto all = plan.stride_bits | bits;
    alignment_class = (all & 255) == 0 ? 0 : (all & 15) == 0 ? 1 : 2;
  } else if (bits % plan.alignment() != 0) {
    return NotSupported(ProblemText(plan.problem), ": tensors must be aligned to ", plan.alignment(), " bytes");
  }
  auto& slot = plan.algorithms[alignment_class];
  if (const Algorithm* algorithm = slot.load(std::memory_order_acquire)) [[likely]]
    return algorithm;
  CUDAEP_ASSIGN_OR_RETURN(const std::vector<Algorithm> found,
                          AskHeuristic(lt, plan.problem, plan.descriptors, plan.workspace_bytes(),
                                       AlignmentOf(plan.problem, alignment_class), 1));
  if (found.empty()) return NotSupported("cuBLASLt has no algorithm for pointers aligned this little");
  auto made = std::make_unique<const Algorithm>(found.front());
  const Algorithm* expected = nullptr;
  if (slot.compare_exchange_strong(expected, made.get(), std::memory_order_acq_rel)) return made.release();
  return expected;
}

}  // namespace

Result<std::string> Version() {
  CUDAEP_ASSIGN_OR_RETURN(const CublasLtApi* api, CublasLt());
  return StrCat("cuBLASLt ", lib::VersionText(api->library.version));
}

Result<std::unique_ptr<Handle>> CreateHandle() {
  CUDAEP_ASSIGN_OR_RETURN(const CublasLtApi* api, CublasLt());
  auto handle = std::make_unique<LtHandle>(*api);
  CUDAEP_RETURN_IF_ERROR(ToStatus(*api, api->cublasLtCreate(handle->handle.Receive()), "cublasLtCreate"));
  return std::unique_ptr<Handle>(std::move(handle));
}

Result<std::vector<std::string>> Candidates(Handle& handle, const GemmProblem& problem, size_t workspace_limit_bytes,
                                            size_t most) {
  CUDAEP_RETURN_IF_ERROR(CheckSizes(problem));
  CUDAEP_ASSIGN_OR_RETURN(const auto plans,
                          PlansOf(static_cast<const LtHandle&>(handle), problem, workspace_limit_bytes, most));
  std::vector<std::string> choices;
  choices.reserve(plans.size());
  for (const auto& plan : plans) choices.push_back(plan->choice());
  return choices;
}

Result<std::unique_ptr<const GemmPlan>> MakePlan(Handle& handle, const GemmProblem& problem,
                                                 size_t workspace_limit_bytes, const std::string& choice) {
  CUDAEP_RETURN_IF_ERROR(CheckSizes(problem));
  const auto& lt = static_cast<const LtHandle&>(handle);
  if (!choice.empty()) return PlanOfChoice(lt, problem, workspace_limit_bytes, choice);
  CUDAEP_ASSIGN_OR_RETURN(auto plans, PlansOf(lt, problem, workspace_limit_bytes, 1));
  if (!plans.empty()) return std::move(plans.front());
  return NotSupported(ProblemText(problem), ": cuBLASLt ", lib::VersionText(lt.api.library.version),
                      " has no algorithm within ", workspace_limit_bytes, " bytes of workspace");
}

bool Covers(Handle& handle, const GemmPlan& base_plan, const GemmProblem& problem) {
  const auto& plan = static_cast<const LtPlan&>(base_plan);
  GemmProblem same = problem;
  same.m = plan.problem.m;
  if (same != plan.problem || problem.m > plan.problem.m) return false;
  if (problem.m == plan.problem.m) return true;
  if (problem.transpose_a || problem.batches() != 1) return false;
  const auto& lt = static_cast<const LtHandle&>(handle);
  LtDescriptors descriptors = plan.descriptors;
  if (!descriptors.SetRows(lt.api, problem.m).ok()) return false;
  const Result<size_t> bytes = CheckAlgorithm(lt, descriptors, plan.algorithms[plan.first_class].load()->algo,
                                              AlignmentOf(problem, plan.first_class));
  return bytes.ok() && bytes.value() <= plan.workspace_bytes();
}

Status Enqueue(Handle& handle, const GemmPlan& base_plan, int64_t m, const GemmPointers& pointers,
               device::Stream stream) {
  const auto& lt = static_cast<const LtHandle&>(handle);
  const auto& plan = static_cast<const LtPlan&>(base_plan);
  const GemmProblem& p = plan.problem;
  CUDAEP_ASSIGN_OR_RETURN(const Algorithm* const algorithm, AlgorithmFor(lt, plan, pointers));
  // The library takes descriptors by non-const pointer, and bias address and rows are part of them: each call has its
  // own copy.
  LtDescriptors d = plan.descriptors;
  CUDAEP_RETURN_IF_ERROR(d.SetBias(lt.api, pointers.bias));
  if (m != p.m) CUDAEP_RETURN_IF_ERROR(d.SetRows(lt.api, m));
  const void* residual = p.epilogue.residual() ? pointers.residual : pointers.c;
  const auto [outer, middle] = CallDims(p);
  const auto size_a = static_cast<int64_t>(SizeOf(p.types.a)), size_c = static_cast<int64_t>(SizeOf(p.types.c));
  for (int64_t i = 0; i < outer.size; ++i) {
    for (int64_t j = 0; j < middle.size; ++j) {
      const int64_t a = (i * outer.stride_a + j * middle.stride_a) * size_a;
      const int64_t b = (i * outer.stride_b + j * middle.stride_b) * size_a;
      const int64_t c = (i * outer.stride_c + j * middle.stride_c) * size_c;
      const cublasStatus_t status = lt.api.cublasLtMatmul(
          lt.handle.get(), &d.operation, plan.scales.alpha(), static_cast<const std::byte*>(pointers.b) + b, &d.first,
          static_cast<const std::byte*>(pointers.a) + a, &d.second, plan.scales.beta(),
          static_cast<const std::byte*>(residual) + c, &d.result, static_cast<std::byte*>(pointers.c) + c, &d.result,
          &algorithm->algo, pointers.workspace, algorithm->workspace_bytes, reinterpret_cast<cudaStream_t>(stream));
      if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
        continue;
      Status failure = lib::AfterLibraryFailure(ToStatus(lt.api, status, "cublasLtMatmul"));
      const bool begun = i + j > 0;
      if (begun && failure.code() == StatusCode::kNotSupported) {
        return Status(StatusCode::kDeviceError, std::string(failure.message()));
      }
      return failure;
    }
  }
  return Status::Ok();
}

}  // namespace cudaep::blas
