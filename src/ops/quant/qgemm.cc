// com.microsoft's QGemm: a product of 8-bit matrices with a bias of int32, quantized or as floats.
#include "kernels/movement/transpose.h"
#include "kernels/quant/int_gemm.h"
#include "ops/gemm/gemm_plan.h"
#include "ops/gemm/turned_weight.h"
#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input { kA, kAScale, kAZero, kB, kBScale, kBZero, kC, kYScale, kYZero };

struct QGemmPlan : Plan {
  kernels::IntGemm gemm;
  kernels::TransposePlan transpose_a;  // where A is stored [k, m]
  size_t a = 0;                        // its rows, in scratch memory
  int64_t b_scales = 1, b_zeros = 1;   // periods
  int64_t biases = 1;                  // period; 0 for one each element
};

class QGemm final : public Operator {
 public:
  static Result<std::unique_ptr<QGemm>> Create(const OpInfo& info) {
    auto op = std::make_unique<QGemm>();
    op->gemm_ = {.a_type = info.input_type(kA),
                 .b_type = info.input_type(kB),
                 .y_type = info.output_type(0),
                 .alpha = info.FloatOr("alpha", 1.0f),
                 .transpose_b = info.BoolOr("transB", false)};
    op->transpose_a_ = info.BoolOr("transA", false);
    const bool quantizes = op->gemm_.y_type != DataType::kFloat;
    if (quantizes != info.has_input(kYScale) || quantizes != info.has_input(kYZero)) {
      return InvalidArgument("an output of ", DataTypeName(op->gemm_.y_type), quantizes ? " needs" : " has no",
                             " scale and zero point of Y");
    }
    if (quantizes && info.input_type(kYZero) != op->gemm_.y_type) {
      return InvalidArgument("zero point of Y is ", DataTypeName(info.input_type(kYZero)), ", Y ",
                             DataTypeName(op->gemm_.y_type));
    }
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const GemmGeometry geometry, Place(inputs));
    for (const auto& [index, name] : {std::pair{kAScale, "scale of A"}, std::pair{kAZero, "zero point of A"},
                                      std::pair{kYScale, "scale of Y"}, std::pair{kYZero, "zero point of Y"}}) {
      const TensorView view = InputAt(inputs, index);
      if (view.present() && view.elems() != 1) {
        return InvalidArgument(name, " ", view.dims(), " must be one element");
      }
    }
    for (const auto& [index, name] : {std::pair{kBScale, "scale of B"}, std::pair{kBZero, "zero point of B"}}) {
      const TensorView view = InputAt(inputs, index);
      if (view.elems() != 1 && (view.rank != 1 || view.dim[0] != geometry.problem.n)) {
        return InvalidArgument(name, " ", view.dims(), " must have one element or ", geometry.problem.n);
      }
    }
    outputs[0] = {geometry.problem.m, geometry.problem.n};
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    CUDAEP_ASSIGN_OR_RETURN(const GemmGeometry geometry, Place(context.inputs));
    const blas::GemmProblem& p = geometry.problem;
    auto plan = std::make_unique<QGemmPlan>();
    plan->gemm = gemm_;
    plan->gemm.m = p.m, plan->gemm.n = p.n, plan->gemm.k = p.k;
    plan->gemm.lda = p.k, plan->gemm.ldb = gemm_.transpose_b ? p.k : p.n, plan->gemm.ldc = p.n;
    plan->b_scales = context.inputs[kBScale].elems(), plan->b_zeros = context.inputs[kBZero].elems();
    PlaceBias(geometry, *plan);
    if (transpose_a_) {
      CUDAEP_ASSIGN_OR_RETURN(plan->transpose_a, kernels::PlanTranspose(context.inputs[kA].dims(), Shape{1, 0}, 1));
      plan->a = plan->AddScratch(context.inputs[kA].bytes());
    }
    return PlanPtr(std::move(plan));
  }

  Result<size_t> PackedBytes(int index, const TensorView& weight) const override {
    return index == kB && !gemm_.transpose_b ? TurnedCodeBytes(weight) : 0;
  }
  Status Pack(int, const TensorView& weight, void* packed, StreamContext& runtime) const override {
    return TurnWeight(weight, packed, runtime);
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const auto& p = PlanAs<QGemmPlan>(plan);
    const auto data = [&](int index) { return InputAt(context.inputs, index).data; };
    kernels::IntGemm gemm = p.gemm;
    if (context.inputs[kB].packed) gemm.transpose_b = true, gemm.ldb = gemm.k;
    kernels::IntGemmPointers at{.a = context.input(kA),
                                .b = context.input(kB),
                                .y = context.output(0),
                                .a_zero = {data(kAZero)},
                                .b_zero = {data(kBZero), p.b_zeros},
                                .a_scale = {data(kAScale)},
                                .b_scale = {data(kBScale), p.b_scales},
                                .y_scale = data(kYScale),
                                .y_zero = data(kYZero)};
    if (p.biases > 0) {
      at.bias = {data(kC), p.biases};
    } else {
      at.biases = context.input<int32_t>(kC);
    }
    if (transpose_a_) {
      at.a = context.scratch(p.a);
      CUDAEP_RETURN_IF_ERROR(
          kernels::LaunchTranspose(p.transpose_a, context.input(kA), context.scratch(p.a), context.stream()));
    }
    return kernels::LaunchIntGemm(gemm, at, context.stream());
  }

 private:
  Result<GemmGeometry> Place(TensorViews inputs) const {
    const TensorView c = InputAt(inputs, kC);
    const Dims c_dims = c.present() ? c.dims() : Dims();
    return PlaceGemm(inputs[kA].dims(), transpose_a_, inputs[kB].dims(), gemm_.transpose_b,
                     c.present() ? &c_dims : nullptr, 1.0f);
  }

  static void PlaceBias(const GemmGeometry& geometry, QGemmPlan& plan) {
    const bool by_row = geometry.c_row_stride != 0, by_column = geometry.c_column_stride != 0;
    plan.gemm.bias_of_rows = by_row;
    plan.biases = by_row && by_column ? 0 : by_row ? geometry.problem.m : by_column ? geometry.problem.n : 1;
  }

  kernels::IntGemm gemm_;  // types and attributes
  bool transpose_a_ = false;
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "QGemm",
     .types = {{"T", DataType::kFloat},
               {"TA", kInt8Types},
               {"TB", kInt8Types},
               {"TC", DataType::kInt32},
               {"TYZ", kInt8Types},
               {"TY", {DataType::kFloat, DataType::kInt8, DataType::kUint8}}},
     .make = Make<QGemm>},
});

}  // namespace
}  // namespace cudaep::ops
