#include "ops/gemm/short_product.h"

#include <algorithm>

#include "core/float16.h"
#include "core/strings.h"
#include "device/device_info.h"
#include "lib/dnn.h"
#include "lib/problem_check.h"
#include "ops/conv/conv_library.h"
#include "ops/conv/runtime_engine.h"

namespace cudaep::ops {
namespace {

// Stands for a plan that is not compiled. What takes its place needs no more workspace, and leaves nothing.
class Uncompiled final : public lib::Plan {
 public:
  Uncompiled() { workspace_bytes_ = size_t{1} << 20; }
};
const LibraryPlanPtr& NotYet() {
  static const auto* const plan = new LibraryPlanPtr(std::make_shared<const Uncompiled>());
  return *plan;
}

constexpr int64_t kPack = kernels::kFewRowsPack;

bool IsDense(const blas::GemmProblem& p) {
  return p.batches() == 1 && !p.transpose_a && p.transpose_b && p.lda == p.k && p.ldb == p.k && p.ldc == p.n;
}

bool IsUnscaled(const Epilogue& e) { return e.alpha == 1.0f && (!e.residual() || e.beta == 1.0f); }

bool IsShort(const blas::GemmProblem& p) {
  return p.m <= kMostShortRows && IsDense(p) && IsUnscaled(p.epilogue) && FitShort(p.types.a, Shape{p.n, p.k});
}

kernels::FewRowsProduct FewRowsOf(const blas::GemmProblem& p) {
  return {.type = p.types.a, .m = p.m, .n = p.n, .k = p.k, .epilogue = p.epilogue};
}

dnn::ConvProblem AsConvolution(const blas::GemmProblem& p) {
  return {.types = p.types,
          .layout = dnn::Layout::kChannelsLast,
          .batch = 1,
          .in_channels = p.k,
          .out_channels = p.n,
          .in = {1, p.m},
          .out = {1, p.m},
          .kernel = {1, 1},
          .stride = {1, 1},
          .dilation = {1, 1},
          .epilogue = p.epilogue,
          .allow_tf32 = p.allow_tf32,
          .deterministic = p.deterministic};
}

}  // namespace

bool MayBeShort(const Settings& settings) { return settings.gemm_path == GemmPath::kAuto && !settings.deterministic; }

bool HasManyRows(Dims a) {
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < a.size(); ++d) {
    if (a[d] == 0) return false;
    if (a[d] > 0) rows = std::min(rows * std::min(a[d], kMostShortRows + 1), kMostShortRows + 1);
  }
  return rows > kMostShortRows;
}

bool MayBeShort(const OpInfo& info, int weights_input, bool packs, bool many) {
  const std::optional<ConstantInfo> weights = info.constant(weights_input);
  if (!weights || !MayBeShort(info.settings()) || !FitShort(weights->type, weights->dims)) return false;
  const bool owns = info.BoolOr("own_weights", false) || info.is_only_reader(weights_input);
  return (owns || !packs) && (many || !HasManyRows(info.input_dims(0).value_or(Shape())));
}

bool FitShort(DataType type, Dims weights) {
  return kFloat16Types.Contains(type) && weights.size() == 2 && weights[0] > 0 && weights[1] > 0 &&
         weights[0] % kPack == 0 && weights[1] % kPack == 0;
}

size_t PackedShortWeights(const TensorView& weights) {
  return FitShort(weights.type, weights.dims()) ? weights.bytes() : size_t{0};
}

std::optional<kernels::FewRowsPlan> PlanFewRows(const blas::GemmProblem& problem, const device::DeviceInfo& device) {
  const kernels::FewRowsProduct product = FewRowsOf(problem);
  if (!IsDense(problem) || !kernels::TakesFewRows(product, device)) return std::nullopt;
  return kernels::PlanFewRows(product, device);
}

kernels::ManyRowsProduct ManyRowsOf(const blas::GemmProblem& p) {
  return {.type = p.types.a,
          .m = p.m,
          .n = p.n,
          .k = p.k,
          .bias = p.epilogue.bias,
          .residual = p.epilogue.residual(),
          .activation = p.epilogue.activation,
          .constant_b = true};  // MayBeShort
}

std::optional<kernels::WarpgroupPlan> PlanManyRows(const blas::GemmProblem& p, const device::DeviceInfo& device) {
  const bool one_type = p.types.b == p.types.a && p.types.c == p.types.a;
  if (!IsUnscaled(p.epilogue) || !one_type || !IsDense(p)) return std::nullopt;
  auto plan = kernels::PlanManyRows(ManyRowsOf(p), device);
  // Few rows of more tiles have engines, which begin before their predecessors have ended.
  const bool is_engines = plan && p.m <= kMostShortRows && !kernels::IsFlat(plan->tiles);
  return is_engines ? std::nullopt : plan;
}

bool IsAlignedForPacks(const blas::GemmProblem& problem, const blas::GemmPointers& at) {
  constexpr size_t kAlignment = kernels::kFewRowsPack * sizeof(Half);
  return blas::AddressBits(at, problem.epilogue.bias, problem.epilogue.residual()) % kAlignment == 0;
}

Status EnqueueFewRows(StreamContext& stream, const blas::GemmProblem& problem, const kernels::FewRowsPlan& plan,
                      const blas::GemmPointers& at) {
  return kernels::LaunchFewRows(FewRowsOf(problem), plan,
                                {.a = at.a, .b = at.b, .c = at.c, .bias = at.bias, .residual = at.residual},
                                stream.stream());
}

Result<PlanSlotPtr> FindShortProduct(StreamContext& stream, const blas::GemmProblem& problem,
                                     size_t workspace_limit_bytes) {
  Result<std::string> library = dnn::Version();
  if (!IsShort(problem) || !library.ok()) return PlanSlotPtr();
  if (NotYet()->workspace_bytes() > workspace_limit_bytes) return PlanSlotPtr();
  const dnn::ConvProblem p = AsConvolution(problem);
  const std::string key = StrCat(dnn::ProblemText(p), " compiled");
  CUDAEP_ASSIGN_OR_RETURN(
      PlanSlotPtr slot, PlanStore::Process().Get({.ordinal = stream.ordinal(), .library = *library, .problem = key},
                                                 [](const std::string&) { return Result<LibraryPlanPtr>(NotYet()); }));
  CompileInBackground(p, stream, slot, {dnn::kRuntimeEngine});
  return slot->progress() == PlanSlot::Progress::kRefused ? PlanSlotPtr() : slot;
}

bool TakesShort(const PlanSlot& slot, const blas::GemmProblem& problem, const blas::GemmPointers& at) {
  return &slot.plan() != NotYet().get() &&
         blas::AddressBits(at, problem.epilogue.bias, problem.epilogue.residual()) % dnn::kTensorAlignment == 0;
}

Status EnqueueShortProduct(StreamContext& stream, const PlanSlot& slot, const blas::GemmPointers& at) {
  return EnqueueConvPlan(
      stream, slot.As<dnn::ConvPlan>(),
      {.x = at.a, .w = at.b, .bias = at.bias, .residual = at.residual, .y = at.c, .workspace = at.workspace});
}

}  // namespace cudaep::ops
