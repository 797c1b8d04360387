// MatMulIntegerToCodes, which compiled regions make of a MatMulInteger of int8 with constant weights and the
// element-wise nodes behind it that end in codes (kernels/quant/code_product.h), or of up to three such products of the
// same A, whose columns lie side by side, as many of each. Inputs: A, B [inner, columns], scale, shift, bias (vectors
// of columns, the last two optional) and an optional table of 256 codes, of a single product. Attributes, one value for
// each product: "y_scale", "y_zero" and "y_lowest" of the last quantization, "first_scale", "first_zero" and
// "first_lowest" of one in front of the bias.
//
// On devices of 9.0 one kernel multiplies and finishes; elsewhere the library's sums go through memory.
#include <algorithm>
#include <optional>
#include <string>

#include "kernels/quant/code_product.h"
#include "kernels/quant/code_reciprocal.h"
#include "kernels/quant/int_gemm.h"
#include "ops/gemm/gemm_plan.h"
#include "ops/gemm/matrix_product.h"
#include "ops/gemm/turned_weight.h"
#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input { kA, kB, kScale, kShift, kBias, kTable };

// Rows whose sums are in memory at a time where a tensor's address keeps the own kernel from it.
constexpr int64_t kUnalignedRows = 256;

struct CodesPlan : Plan {
  int64_t m = 0, n = 0, k = 0;
  std::optional<kernels::WarpgroupPlan> own;
  bool one_launch = true;  // of all products
  std::optional<MatrixProduct> library;
  int64_t rows = 0;                        // that `sums` has room for
  size_t sums = 0, library_workspace = 0;  // in scratch memory
};

class MatMulIntegerToCodes final : public Operator {
 public:
  MatMulIntegerToCodes(const kernels::CodeFinish& finish, size_t parts, const OpInfo& info)
      : finish_(finish),
        parts_(parts),
        options_(ProductOptions(info.settings())),
        own_alone_(info.settings().gemm_path == GemmPath::kOwnKernel),
        library_alone_(info.settings().gemm_path == GemmPath::kLibrary) {
    for (const Input input : {kScale, kShift, kBias, kTable}) {
      constant_columns_ = constant_columns_ && (!info.has_input(input) || info.is_constant(input));
    }
    options_.path = GemmPath::kLibrary;
    options_.constant_b = true;
  }

  static Result<std::unique_ptr<MatMulIntegerToCodes>> Create(const OpInfo& info) {
    const auto parts = static_cast<size_t>(info.output_count());
    if (parts > kernels::kMostCodeParts || (parts > 1 && info.has_input(kTable))) {
      return NotSupported(parts, " products; ", kernels::kMostCodeParts, " at most are offered, and one with a table");
    }
    kernels::CodeFinish finish;
    finish.has_first = info.Floats("first_scale") ? 1 : 0;
    for (size_t i = 0; i < parts; ++i) {
      kernels::CodePart& part = finish.part[i];
      float first_scale = 1;
      CUDAEP_ASSIGN_OR_RETURN(const Coding last, CodingOf(info, "y", i));
      if (finish.has_first != 0) {
        CUDAEP_ASSIGN_OR_RETURN(const Coding first, CodingOf(info, "first", i));
        part.first = first.Step();
        first_scale = first.scale;
      }
      part.last = last.Step();
      part.ratio = first_scale / last.scale;
      part.zero = static_cast<int32_t>(last.zero);
    }
    return std::make_unique<MatMulIntegerToCodes>(finish, parts, info);
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
    const auto parts = static_cast<int64_t>(parts_);
    if (b.dims()[1] % parts != 0) return InvalidArgument(parts, " products of ", b.dims()[1], " columns");
    for (Shape& output : outputs) {
      output.Assign(a.dims());
      output[a.rank - 1] = b.dims()[1] / parts;
    }
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<CodesPlan>();
    const Dims a = context.inputs[kA].dims(), b = context.inputs[kB].dims();
    plan->m = ElementCount(a.first(a.size() - 1)), plan->n = b[1], plan->k = b[0];
    if (plan->m == 0 || plan->n == 0) return PlanPtr(std::move(plan));
    if (!FitsInt32(plan->n)) return NotSupported("products of ", plan->n, " columns, 2^31 or more");
    const auto parts = static_cast<int64_t>(parts_);
    const bool packed = context.inputs[kB].packed;
    if (packed && !library_alone_ && kernels::TakesCodeProduct(plan->m, plan->n / parts, plan->k, context.device)) {
      plan->own = kernels::PlanCodeProduct(plan->m, plan->n / parts, parts, plan->k, context.device);
      plan->one_launch = plan->own.has_value();
      if (!plan->own) plan->own = kernels::PlanCodeProduct(plan->m, plan->n / parts, 1, plan->k, context.device);
    }
    plan->rows = std::min(plan->m, plan->own ? kUnalignedRows : INT32_MAX / 2);
    plan->sums = plan->AddScratch(static_cast<size_t>(plan->rows * plan->n) * sizeof(int32_t));
    if (packed && !plan->own && !own_alone_ && plan->rows == plan->m) {
      CUDAEP_RETURN_IF_ERROR(UseLibrary(context.runtime, *plan));
    }
    return PlanPtr(std::move(plan));
  }

  Result<size_t> PackedBytes(int index, const TensorView& weight) const override {
    return index == kB ? TurnedCodeBytes(weight) : 0;
  }
  Status Pack(int, const TensorView& weight, void* packed, StreamContext& runtime) const override {
    return TurnWeight(weight, packed, runtime);
  }

  LibrarySet libraries() const override { return {.blas = !own_alone_}; }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const auto& p = PlanAs<CodesPlan>(plan);
    if (p.m == 0 || p.n == 0) return Status::Ok();
    kernels::CodeFinish finish = finish_;
    const auto vector = [&](int input) { return static_cast<const float*>(InputAt(context.inputs, input).data); };
    finish.scale = vector(kScale), finish.shift = vector(kShift), finish.bias = vector(kBias);
    finish.table = static_cast<const uint8_t*>(InputAt(context.inputs, kTable).data);
    finish.n = static_cast<int32_t>(p.n), finish.part_n = static_cast<int32_t>(p.n / static_cast<int64_t>(parts_));
    const void *a = context.input(kA), *b = context.input(kB);
    uintptr_t bits = reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b);
    for (size_t i = 0; i < parts_; ++i) {
      finish.c[i] = context.outputs[i];
      bits |= reinterpret_cast<uintptr_t>(finish.c[i]);
    }
    if (!p.own || bits % 16 != 0) return FinishSums(p, finish, context);
    finish.m = static_cast<int32_t>(p.m);
    if (p.one_launch) return kernels::LaunchCodeProduct(finish, *p.own, a, b, constant_columns_, p.k, context.stream());
    for (size_t i = 0; i < parts_; ++i) {
      const int64_t column = static_cast<int64_t>(i) * finish.part_n;
      const auto from = [&](const float* of) { return of == nullptr ? nullptr : of + column; };
      kernels::CodeFinish part = finish;
      part.scale = from(finish.scale), part.shift = from(finish.shift), part.bias = from(finish.bias);
      part.c[0] = finish.c[i], part.part[0] = finish.part[i], part.n = finish.part_n;
      const auto* const weights = static_cast<const std::byte*>(b) + column * p.k;
      CUDAEP_RETURN_IF_ERROR(
          kernels::LaunchCodeProduct(part, *p.own, a, weights, constant_columns_, p.k, context.stream()));
    }
    return Status::Ok();
  }

 private:
  struct Coding {
    float scale;
    int64_t zero, lowest;

    kernels::CodeStep Step() const {
      const auto least = static_cast<float>(lowest - zero);
      return {.inverse = 1 / scale, .least = least, .most = least + 255};
    }
  };

  // Of the product `index` by the attributes that begin with `step`.
  static Result<Coding> CodingOf(const OpInfo& info, const std::string& step, size_t index) {
    const std::vector<float> scales = info.Floats((step + "_scale").c_str()).value_or(std::vector<float>{});
    const std::vector<int64_t> zeros = info.IntsOr((step + "_zero").c_str(), {}),
                               lowest = info.IntsOr((step + "_lowest").c_str(), {});
    if (scales.size() <= index || zeros.size() <= index || lowest.size() <= index) {
      return InvalidArgument(step, "_scale, _zero and _lowest have no value for product ", index);
    }
    const Coding coding{.scale = scales[index], .zero = zeros[index], .lowest = lowest[index]};
    if (!(coding.scale > 0)) return InvalidArgument(step, "_scale must be a positive number, not ", coding.scale);
    if (!kernels::IsModerateScale(coding.scale)) {
      return NotSupported(step, "_scale ", coding.scale, "; 2^-60 to 2^60 are offered");
    }
    if (coding.lowest != -128 && coding.lowest != 0) {
      return InvalidArgument(step, "_lowest must be -128 or 0, not ", coding.lowest);
    }
    if (coding.zero < coding.lowest || coding.zero > coding.lowest + 255) {
      return InvalidArgument(step, "_zero ", coding.zero, " is no code");
    }
    return coding;
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

  // By way of the sums, some rows at a time.
  Status FinishSums(const CodesPlan& p, kernels::CodeFinish& finish, const OpContext& context) const {
    for (int64_t row = 0; row < p.m; row += p.rows) {
      const int64_t rows = std::min(p.rows, p.m - row);
      CUDAEP_RETURN_IF_ERROR(Multiply(p, context, row, rows));
      finish.m = static_cast<int32_t>(rows);
      for (size_t i = 0; i < parts_; ++i) {
        auto* const y = static_cast<std::byte*>(context.outputs[i]);
        finish.c[i] = y == nullptr ? nullptr : y + row * finish.part_n;
      }
      const auto* const sums = context.scratch<int32_t>(p.sums);
      CUDAEP_RETURN_IF_ERROR(kernels::LaunchFinishCodes(finish, sums, context.stream()));
    }
    return Status::Ok();
  }

  Status Multiply(const CodesPlan& p, const OpContext& context, int64_t row, int64_t rows) const {
    void* const sums = context.scratch(p.sums);
    const auto* const a = context.input<std::byte>(kA) + row * p.k;
    if (p.library) {
      const Status queued = p.library->Enqueue(
          context.runtime,
          {.a = a, .b = context.input(kB), .c = sums, .workspace = context.scratch(p.library_workspace)});
      if (queued.code() != StatusCode::kNotSupported) return queued;  // A may be aligned to fewer bytes than it wants
    }
    const bool packed = context.inputs[kB].packed;
    const kernels::IntGemm gemm{.a_type = DataType::kInt8,
                                .b_type = DataType::kInt8,
                                .m = rows,
                                .n = p.n,
                                .k = p.k,
                                .lda = p.k,
                                .ldb = packed ? p.k : p.n,
                                .ldc = p.n,
                                .transpose_b = packed};
    return kernels::LaunchIntGemm(gemm, {.a = a, .b = context.input(kB), .y = sums}, context.stream());
  }

  kernels::CodeFinish finish_;  // without tensors
  size_t parts_;
  ProductOptions options_;
  bool own_alone_, library_alone_, constant_columns_ = true;
};

const RegisterRows kRows({{.domain = kFusedDomain,
                           .op = "MatMulIntegerToCodes",
                           .types = {{"T1", DataType::kInt8}, {"T2", kInt8Types}},
                           .make = Make<MatMulIntegerToCodes>}});

}  // namespace
}  // namespace cudaep::ops
