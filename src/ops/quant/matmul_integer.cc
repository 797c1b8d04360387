// MatMulInteger, QLinearMatMul, and com.microsoft's MatMulIntegerToFloat and DynamicQuantizeMatMul.
//
// MatMulInteger of int8 and packed weights, where nothing is taken off, is a library's product; all else the own
// kernel's.
#include <algorithm>
#include <optional>

#include "kernels/quant/dynamic_quantize.h"
#include "kernels/quant/int_gemm.h"
#include "ops/gemm/gemm_plan.h"
#include "ops/gemm/matrix_product.h"
#include "ops/gemm/turned_weight.h"
#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum class Variant { kInteger, kLinear, kToFloat, kDynamic };

// Where each variant has its inputs; kNone for those it lacks.
struct Inputs {
  static constexpr int kNone = -1;
  int b, a_zero = kNone, b_zero = kNone, a_scale = kNone, b_scale = kNone, y_scale = kNone, y_zero = kNone,
         bias = kNone;
};

Inputs InputsOf(Variant variant) {
  switch (variant) {
    case Variant::kInteger:
      return {.b = 1, .a_zero = 2, .b_zero = 3};
    case Variant::kLinear:
      return {.b = 3, .a_zero = 2, .b_zero = 5, .a_scale = 1, .b_scale = 4, .y_scale = 6, .y_zero = 7};
    case Variant::kToFloat:
      return {.b = 1, .a_zero = 4, .b_zero = 5, .a_scale = 2, .b_scale = 3, .bias = 6};
    case Variant::kDynamic:
      break;
  }
  return {.b = 1, .b_zero = 3, .b_scale = 2, .bias = 4};
}

struct MatMulIntegerPlan : Plan {
  kernels::IntGemm gemm;
  std::optional<MatrixProduct> library;
  std::vector<GemmOffsets> launches;  // in elements
  int64_t a_elems = 0;
  int64_t a_zero = 1, b_zero = 1, a_scale = 1, b_scale = 1;   // periods
  size_t codes = 0, scale = 0, zero_point = 0, extremes = 0;  // of a quantized A, in scratch memory
};

// After how many rows of `matrix` (columns with `columns`) the values of a scale or zero point repeat: 1 for a single
// one, the rows of a matrix, or those of all its matrices. The dimension across has size 1.
Result<int64_t> PeriodOf(const char* name, const TensorView& vector, Dims matrix, bool columns) {
  if (!vector.present() || vector.elems() == 1) return 1;
  const size_t rank = matrix.size();
  const int64_t lines = rank < 2 ? 1 : matrix[rank - (columns ? 1 : 2)];
  const Dims dims = vector.dims();
  bool fits = vector.rank == 1 && dims[0] == lines;
  if (!fits && dims.size() == rank && rank >= 2) {
    Shape whole(matrix), one(static_cast<int>(rank), 1);
    whole[static_cast<int>(rank) - (columns ? 2 : 1)] = 1;
    one[static_cast<int>(rank) - (columns ? 1 : 2)] = lines;
    fits = std::ranges::equal(dims, whole.dims()) || std::ranges::equal(dims, one.dims());
  }
  if (!fits) return InvalidArgument(name, " ", dims, " fits no ", columns ? "columns" : "rows", " of ", matrix);
  return vector.elems();
}

Status CheckSingle(const char* name, const TensorView& view) {
  if (!view.present() || view.elems() == 1) return Status::Ok();
  return InvalidArgument(name, " ", view.dims(), " must be one element");
}

class MatMulInteger final : public Operator {
 public:
  MatMulInteger(Variant variant, const OpInfo& info) : variant_(variant), at_(InputsOf(variant)) {
    gemm_ = {.a_type = variant == Variant::kDynamic ? DataType::kUint8 : info.input_type(0),
             .b_type = info.input_type(at_.b),
             .y_type = info.output_type(0)};
    if (at_.b_scale != Inputs::kNone) gemm_.scale_type = info.input_type(at_.b_scale);
    if (at_.bias != Inputs::kNone) gemm_.bias_type = gemm_.y_type;
    may_use_library_ = variant == Variant::kInteger && gemm_.a_type == DataType::kInt8 &&
                       gemm_.b_type == DataType::kInt8 && !info.has_input(at_.a_zero) && !info.has_input(at_.b_zero) &&
                       info.settings().gemm_path != GemmPath::kOwnKernel;
    options_ = ProductOptions(info.settings());
    options_.path = GemmPath::kLibrary;  // the own kernel here is another
    options_.constant_b = true;
  }

  static Result<std::unique_ptr<MatMulInteger>> Create(const OpInfo& info, const KernelRow& row) {
    auto op = std::make_unique<MatMulInteger>(row.VariantAs<Variant>(), info);
    for (const DataType type : {op->gemm_.a_type, op->gemm_.b_type}) {
      if (type != DataType::kInt8 && type != DataType::kUint8) {
        return NotSupported("products of ", DataTypeName(type), "; int8 and uint8 are offered");
      }
    }
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const MatMulGeometry geometry, Place(inputs));
    MatMulIntegerPlan periods;
    CUDAEP_RETURN_IF_ERROR(Measure(inputs, periods));
    outputs[0] = geometry.output;
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<MatMulIntegerPlan>();
    CUDAEP_ASSIGN_OR_RETURN(MatMulGeometry geometry, Place(context.inputs));
    CUDAEP_RETURN_IF_ERROR(Measure(context.inputs, *plan));
    const blas::GemmProblem& p = geometry.problem;
    plan->gemm = gemm_;
    plan->gemm.m = p.m, plan->gemm.n = p.n, plan->gemm.k = p.k;
    plan->gemm.lda = p.lda, plan->gemm.ldb = p.ldb, plan->gemm.ldc = p.ldc;
    for (size_t i = 0; i < p.batch.size(); ++i) {
      plan->gemm.batch[i] = {p.batch[i].size, p.batch[i].stride_a, p.batch[i].stride_b, p.batch[i].stride_c};
    }
    plan->launches = std::move(geometry.launches);
    if (may_use_library_ && InputAt(context.inputs, at_.b).packed && !plan->launches.empty()) {
      CUDAEP_RETURN_IF_ERROR(UseLibrary(context.runtime, p, *plan));
    }
    plan->a_elems = context.inputs[0].elems();
    if (variant_ == Variant::kDynamic) {
      plan->codes = plan->AddScratch(static_cast<size_t>(plan->a_elems));
      plan->scale = plan->AddScratch(sizeof(float));
      plan->zero_point = plan->AddScratch(1);
      plan->extremes = plan->AddScratch(kernels::DynamicQuantizeScratch(plan->a_elems));
    }
    return PlanPtr(std::move(plan));
  }

  Result<size_t> PackedBytes(int index, const TensorView& weight) const override {
    return index == at_.b ? TurnedCodeBytes(weight) : 0;
  }
  Status Pack(int, const TensorView& weight, void* packed, StreamContext& runtime) const override {
    return TurnWeight(weight, packed, runtime);
  }

  LibrarySet libraries() const override { return {.blas = may_use_library_}; }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const auto& p = PlanAs<MatMulIntegerPlan>(plan);
    if (p.launches.empty()) return Status::Ok();
    if (p.library) {
      const Status queued = p.library->Enqueue(
          context.runtime,
          {.a = context.input(0), .b = context.input(at_.b), .c = context.output(0), .workspace = context.workspace});
      if (queued.code() != StatusCode::kNotSupported) return queued;  // A may be aligned to fewer bytes than it wants
    }
    kernels::IntGemm gemm = p.gemm;
    if (context.inputs[static_cast<size_t>(at_.b)].packed) gemm.transpose_b = true, gemm.ldb = gemm.k;
    const auto data = [&](int index) { return InputAt(context.inputs, index).data; };
    const void* a = context.input(0);
    kernels::IntGemmPointers at{.a_zero = {data(at_.a_zero), p.a_zero},
                                .b_zero = {data(at_.b_zero), p.b_zero},
                                .a_scale = {data(at_.a_scale), p.a_scale},
                                .b_scale = {data(at_.b_scale), p.b_scale},
                                .y_scale = data(at_.y_scale),
                                .y_zero = data(at_.y_zero),
                                .bias = {data(at_.bias), p.gemm.n}};
    if (variant_ == Variant::kDynamic) {
      CUDAEP_RETURN_IF_ERROR(QuantizeA(p, context));
      a = context.scratch(p.codes);
      at.a_zero.data = context.scratch(p.zero_point);
      at.a_scale.data = context.scratch(p.scale);
    }
    for (const GemmOffsets& offset : p.launches) {
      at.a = static_cast<const std::byte*>(a) + offset.a;
      at.b = context.input<std::byte>(at_.b) + offset.b;
      at.y = context.output<std::byte>(0) + offset.y * static_cast<int64_t>(SizeOf(gemm.y_type));
      at.first_row = gemm.k == 0 ? 0 : offset.a / gemm.k;
      at.first_column = gemm.k == 0 ? 0 : offset.b / gemm.k;
      CUDAEP_RETURN_IF_ERROR(kernels::LaunchIntGemm(gemm, at, context.stream()));
    }
    return Status::Ok();
  }

 private:
  Result<MatMulGeometry> Place(TensorViews inputs) const {
    return PlaceMatMul(inputs[0].dims(), {}, InputAt(inputs, at_.b).dims(), {});
  }

  // Weights lie column by column. They are of rank 2, so that all of A's rows are one product's.
  Status UseLibrary(StreamContext& stream, blas::GemmProblem problem, MatMulIntegerPlan& plan) const {
    problem.types = lib::MixedTypes::Of(DataType::kInt8);
    problem.transpose_b = true;
    problem.ldb = problem.k;
    Result<MatrixProduct> product = MatrixProduct::Make(stream, problem, options_);
    if (product.status().code() == StatusCode::kNotSupported) return Status::Ok();
    CUDAEP_RETURN_IF_ERROR(product.status());
    plan.library = std::move(product).value();
    plan.workspace_bytes = plan.library->workspace_bytes();
    return Status::Ok();
  }

  // Checks scales, zero points and bias, and finds their periods.
  Status Measure(TensorViews inputs, MatMulIntegerPlan& plan) const {
    const Dims a = inputs[0].dims(), b = InputAt(inputs, at_.b).dims();
    CUDAEP_ASSIGN_OR_RETURN(plan.a_zero, PeriodOf("zero point of A", InputAt(inputs, at_.a_zero), a, false));
    CUDAEP_ASSIGN_OR_RETURN(plan.a_scale, PeriodOf("scale of A", InputAt(inputs, at_.a_scale), a, false));
    CUDAEP_ASSIGN_OR_RETURN(plan.b_zero, PeriodOf("zero point of B", InputAt(inputs, at_.b_zero), b, true));
    CUDAEP_ASSIGN_OR_RETURN(plan.b_scale, PeriodOf("scale of B", InputAt(inputs, at_.b_scale), b, true));
    CUDAEP_RETURN_IF_ERROR(CheckSingle("scale of Y", InputAt(inputs, at_.y_scale)));
    CUDAEP_RETURN_IF_ERROR(CheckSingle("zero point of Y", InputAt(inputs, at_.y_zero)));
    const TensorView bias = InputAt(inputs, at_.bias);
    const int64_t columns = b.size() < 2 ? 1 : b.back();
    if (bias.present() && bias.elems() != columns) {
      return InvalidArgument("bias ", bias.dims(), " must have ", columns, " elements");
    }
    return Status::Ok();
  }

  static Status QuantizeA(const MatMulIntegerPlan& p, const OpContext& context) {
    return kernels::LaunchDynamicQuantize({.x = context.input<float>(0),
                                           .y = context.scratch<uint8_t>(p.codes),
                                           .scale = context.scratch<float>(p.scale),
                                           .zero_point = context.scratch<uint8_t>(p.zero_point),
                                           .extremes = context.scratch<float>(p.extremes),
                                           .elems = p.a_elems},
                                          context.stream());
  }

  Variant variant_;
  Inputs at_;
  kernels::IntGemm gemm_;  // types
  ProductOptions options_;
  bool may_use_library_ = false;
};

KernelRow Row(Variant variant, const char* op, int since, std::vector<TypeConstraint> types,
              const char* domain = kOnnxDomain) {
  return {.domain = domain,
          .op = op,
          .since = since,
          .until = since,
          .types = std::move(types),
          .variant = static_cast<int>(variant),
          .make = Make<MatMulInteger>};
}

const RegisterRows kRows({
    Row(Variant::kInteger, "MatMulInteger", 10, {{"T1", kInt8Types}, {"T2", kInt8Types}, {"T3", DataType::kInt32}}),
    Row(Variant::kLinear, "QLinearMatMul", 10, {{"T1", kInt8Types}, {"T2", kInt8Types}, {"T3", kInt8Types}}),
    Row(Variant::kLinear, "QLinearMatMul", 21,
        {{"TS", kFloatTypesNoDouble}, {"T1", kInt8Types}, {"T2", kInt8Types}, {"T3", kInt8Types}}),
    Row(Variant::kToFloat, "MatMulIntegerToFloat", 1,
        {{"T1", kInt8Types}, {"T2", kInt8Types}, {"T3", {DataType::kFloat, DataType::kFloat16}}}, kMicrosoftDomain),
    Row(Variant::kDynamic, "DynamicQuantizeMatMul", 1, {{"T1", DataType::kFloat}, {"T2", kInt8Types}},
        kMicrosoftDomain),
});

}  // namespace
}  // namespace cudaep::ops
