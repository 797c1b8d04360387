// MatMulIntegerToCodes, which compiled regions make of a MatMulInteger of int8 with constant weights and the
// element-wise nodes behind it that end in codes (kernels/quant/code_product.h). Inputs: A, B [inner, columns], scale,
// shift, bias (vectors of columns, the last two optional) and an optional table of 256 codes. Attributes: "y_scale",
// "y_zero" and "y_lowest" of the last quantization, "first_scale", "first_zero" and "first_lowest" of one in front of
// the bias.
//
// On devices of 9.0 one kernel multiplies and finishes; elsewhere the library's sums go through memory.
#include <optional>

#include "kernels/movement/transpose.h"
#include "kernels/quant/code_product.h"
#include "kernels/quant/int_gemm.h"
#include "ops/gemm/gemm_plan.h"
#include "ops/gemm/matrix_product.h"
#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input { kA, kB, kScale, kShift, kBias, kTable };

struct CodesPlan : Plan {
  int64_t m = 0, n = 0, k = 0;
  std::optional<kernels::WarpgroupPlan> own;
  std::optional<MatrixProduct> library;
  size_t sums = 0, library_workspace = 0;  // in scratch memory
};

class MatMulIntegerToCodes final : public Operator {
 public:
  MatMulIntegerToCodes(const kernels::CodeFinish& finish, const Settings& settings)
      : finish_(finish), options_(ProductOptions(settings)), own_alone_(settings.gemm_path == GemmPath::kOwnKernel) {
    options_.path = GemmPath::kLibrary;
    options_.constant_b = true;
  }

  static Result<std::unique_ptr<MatMulIntegerToCodes>> Create(const OpInfo& info) {
    kernels::CodeFinish finish;
    CUDAEP_ASSIGN_OR_RETURN(finish.last, StepOf(info, "y_scale", "y_zero", "y_lowest"));
    if (info.Float("first_scale")) {
      CUDAEP_ASSIGN_OR_RETURN(finish.first, StepOf(info, "first_scale", "first_zero", "first_lowest"));
      finish.has_first = 1;
    }
    finish.ratio = info.FloatOr("first_scale", 1) * finish.last.inverse;
    const int64_t zero = info.IntOr("y_zero", 0);
    finish.added = static_cast<int32_t>(info.has_input(kTable) ? zero - info.IntOr("y_lowest", 0) : zero);
    return std::make_unique<MatMulIntegerToCodes>(finish, info.settings());
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const TensorView &a = inputs[kA], &b = inputs[kB];
    if (a.rank < 1 || b.rank != 2 || a.dims().back() != b.dims()[0]) {
      return InvalidArgument("the product of ", a.dims(), " and ", b.dims());
    }
    for (const int input : {kScale, kShift, kBias}) {
      const TensorView vector = InputAt(inputs, input);
      if (vector.present() && vector.elems() != b.dims()[1]) {
        return InvalidArgument("input ", input, ' ', vector.dims(), " has no element for each column of ", b.dims());
      }
    }
    const TensorView table = InputAt(inputs, kTable);
    if (table.present() && table.elems() != 256) return InvalidArgument("a table of ", table.elems(), " codes");
    outputs[0].Assign(a.dims());
    outputs[0][a.rank - 1] = b.dims()[1];
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<CodesPlan>();
    const Dims y = context.outputs[0].dims();
    plan->n = y.back(), plan->m = ElementCount(y.first(y.size() - 1)), plan->k = context.inputs[kB].dims()[0];
    if (plan->m == 0 || plan->n == 0) return PlanPtr(std::move(plan));
    const bool packed = context.inputs[kB].packed;
    if (packed && kernels::TakesCodeProduct(plan->m, plan->n, plan->k, context.device)) {
      plan->own = kernels::PlanCodeProduct(plan->m, plan->n, context.device);
    }
    plan->sums = plan->AddScratch(static_cast<size_t>(plan->m * plan->n) * sizeof(int32_t));
    if (packed && !plan->own && !own_alone_) CUDAEP_RETURN_IF_ERROR(UseLibrary(context.runtime, *plan));
    return PlanPtr(std::move(plan));
  }

  // A weight whose columns can be read 16 bytes at a time gets them side by side.
  Result<size_t> PackedBytes(int index, const TensorView& weight) const override {
    const bool packs = index == kB && weight.rank == 2 && weight.dim[0] % 16 == 0;
    return packs ? weight.bytes() : size_t{0};
  }

  Status Pack(int, const TensorView& weight, void* packed, StreamContext& runtime) const override {
    CUDAEP_ASSIGN_OR_RETURN(const kernels::TransposePlan plan, kernels::PlanTranspose(weight.dims(), Shape{1, 0}, 1));
    return kernels::LaunchTranspose(plan, weight.data, packed, runtime.stream());
  }

  LibrarySet libraries() const override { return {.blas = !own_alone_}; }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const auto& p = PlanAs<CodesPlan>(plan);
    if (p.m == 0 || p.n == 0) return Status::Ok();
    kernels::CodeFinish finish = finish_;
    const auto vector = [&](int input) { return static_cast<const float*>(InputAt(context.inputs, input).data); };
    finish.scale = vector(kScale), finish.shift = vector(kShift), finish.bias = vector(kBias);
    finish.table = static_cast<const uint8_t*>(InputAt(context.inputs, kTable).data);
    finish.n = static_cast<int32_t>(p.n);
    const void *a = context.input(kA), *b = context.input(kB);
    void* const y = context.output(0);
    const auto aligned = [](const void* tensor) { return reinterpret_cast<uintptr_t>(tensor) % 16 == 0; };
    if (p.own && aligned(a) && aligned(b) && aligned(y)) {
      return kernels::LaunchCodeProduct(finish, *p.own, a, b, y, p.m, p.k, context.stream());
    }
    CUDAEP_RETURN_IF_ERROR(Multiply(p, context));
    return kernels::LaunchFinishCodes(finish, context.scratch<int32_t>(p.sums), y, p.m, context.stream());
  }

 private:
  static Result<kernels::CodeStep> StepOf(const OpInfo& info, const char* scale_name, const char* zero_name,
                                          const char* lowest_name) {
    const float scale = info.FloatOr(scale_name, 0);
    const int64_t zero = info.IntOr(zero_name, 0), lowest = info.IntOr(lowest_name, 0);
    if (!(scale > 0)) return InvalidArgument(scale_name, " must be a positive number, not ", scale);
    if (lowest != -128 && lowest != 0) return InvalidArgument(lowest_name, " must be -128 or 0, not ", lowest);
    if (zero < lowest || zero > lowest + 255) return InvalidArgument(zero_name, ' ', zero, " is no code");
    const auto least = static_cast<float>(lowest - zero);
    return kernels::CodeStep{.inverse = 1 / scale, .least = least, .most = least + 255.0f};
  }

  Status UseLibrary(StreamContext& stream, CodesPlan& plan) const {
    blas::GemmProblem problem;
    problem.types = lib::MixedTypes::Of(DataType::kInt8);
    problem.transpose_b = true;
    problem.m = plan.m, problem.n = plan.n, problem.k = plan.k;
    problem.lda = plan.k, problem.ldb = plan.k, problem.ldc = plan.n;
    Result<MatrixProduct> product = MatrixProduct::Make(stream, problem, options_);
    if (product.status().code() == StatusCode::kNotSupported) return Status::Ok();
    CUDAEP_RETURN_IF_ERROR(product.status());
    plan.library = std::move(product).value();
    plan.library_workspace = plan.AddScratch(plan.library->workspace_bytes());
    return Status::Ok();
  }

  // The sums, in scratch memory.
  Status Multiply(const CodesPlan& p, const OpContext& context) const {
    void* const sums = context.scratch(p.sums);
    if (p.library) {
      const Status queued = p.library->Enqueue(context.runtime, {.a = context.input(kA),
                                                                 .b = context.input(kB),
                                                                 .c = sums,
                                                                 .workspace = context.scratch(p.library_workspace)});
      if (queued.code() != StatusCode::kNotSupported) return queued;  // A may be aligned to fewer bytes than it wants
    }
    const bool packed = context.inputs[kB].packed;
    const kernels::IntGemm gemm{.a_type = DataType::kInt8,
                                .b_type = DataType::kInt8,
                                .m = p.m,
                                .n = p.n,
                                .k = p.k,
                                .lda = p.k,
                                .ldb = packed ? p.k : p.n,
                                .ldc = p.n,
                                .transpose_b = packed};
    return kernels::LaunchIntGemm(gemm, {.a = context.input(kA), .b = context.input(kB), .y = sums}, context.stream());
  }

  kernels::CodeFinish finish_;  // without tensors
  ProductOptions options_;
  bool own_alone_;
};

constexpr DataTypeSet kBytes{DataType::kInt8, DataType::kUint8};

const RegisterRows kRows({{.domain = kFusedDomain,
                           .op = "MatMulIntegerToCodes",
                           .types = {{"T1", DataType::kInt8}, {"T2", kBytes}},
                           .make = Make<MatMulIntegerToCodes>}});

}  // namespace
}  // namespace cudaep::ops
