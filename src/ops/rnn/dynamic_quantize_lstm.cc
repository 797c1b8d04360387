// com.microsoft's DynamicQuantizeLSTM: LSTM with weights of 8 bits. The input is quantized as a whole, the state of
// each direction at each step.
#include "kernels/movement/transpose.h"
#include "kernels/quant/dynamic_quantize.h"
#include "kernels/quant/int_gemm.h"
#include "ops/registry.h"
#include "ops/rnn/rnn_place.h"

namespace cudaep::ops {
namespace {

enum Input { kWScale = kRnnPeephole + 1, kWZero, kRScale, kRZero };

// A product of quantized rows with the weights of each direction.
struct Product {
  kernels::IntGemm gemm;
  int64_t row_step = 0;           // elements of the rows between directions, 0 where all have the same
  int64_t y_step = 0;             // elements of the result between directions
  int64_t scales = 1, zeros = 1;  // of a direction
};

struct QuantizedLstmPlan : Plan {
  RnnProblem problem;
  Product input, recurrent;
  size_t h = 0, c = 0, x_product = 0, h_product = 0, codes = 0, scale = 0, zero = 0, extremes = 0;
};

class DynamicQuantizeLstm final : public Operator {
 public:
  static Result<std::unique_ptr<DynamicQuantizeLstm>> Create(const OpInfo& info) {
    auto op = std::make_unique<DynamicQuantizeLstm>();
    CUDAEP_ASSIGN_OR_RETURN(op->attributes_, ParseRnn(info, kernels::RnnCell::kLstm));
    op->weight_type_ = info.input_type(kRnnW);
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const RnnProblem problem, Place(inputs));
    for (const auto& [index, name] : {std::pair{kWScale, "W_scale"}, std::pair{kWZero, "W_zero_point"},
                                      std::pair{kRScale, "R_scale"}, std::pair{kRZero, "R_zero_point"}}) {
      const Dims dims = inputs[static_cast<size_t>(index)].dims();
      const Shape one{problem.shape.directions}, each{problem.shape.directions, 4 * problem.shape.hidden};
      if (!SameDims(dims, one) && !SameDims(dims, each)) {
        return InvalidArgument("input ", name, " has shape ", dims, ", expected ", one.dims(), " or ", each.dims());
      }
    }
    return RnnOutputs(attributes_, problem, outputs);
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<QuantizedLstmPlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->problem, Place(context.inputs));
    const kernels::RnnShape& s = plan->problem.shape;
    const int64_t states = s.directions * s.batch * s.hidden, rows = s.steps * s.batch, columns = 4 * s.hidden;
    if (states == 0) return PlanPtr(std::move(plan));
    plan->h = plan->AddScratch(static_cast<size_t>(states) * sizeof(float));
    plan->c = plan->AddScratch(static_cast<size_t>(states) * kernels::RnnCellBytes(DataType::kFloat));
    if (s.steps == 0) return PlanPtr(std::move(plan));
    int64_t products = 0;
    if (!CheckedMultiply(rows, s.directions * columns, &products)) {
      return InvalidArgument("the product with the input weights has too many elements");
    }
    const auto quantity = [&](int index) { return context.inputs[static_cast<size_t>(index)].elems() / s.directions; };
    plan->input = {.gemm = Gemm(rows, columns, plan->problem.input, s.directions * columns),
                   .y_step = columns,
                   .scales = quantity(kWScale),
                   .zeros = quantity(kWZero)};
    plan->recurrent = {.gemm = Gemm(s.batch, columns, s.hidden, columns),
                       .row_step = s.batch * s.hidden,
                       .y_step = s.batch * columns,
                       .scales = quantity(kRScale),
                       .zeros = quantity(kRZero)};
    const int64_t elems = std::max(rows * plan->problem.input, s.batch * s.hidden);
    plan->x_product = plan->AddScratch(static_cast<size_t>(products) * sizeof(float));
    plan->h_product = plan->AddScratch(static_cast<size_t>(4 * states) * sizeof(float));
    plan->codes = plan->AddScratch(static_cast<size_t>(elems));
    plan->scale = plan->AddScratch(sizeof(float));
    plan->zero = plan->AddScratch(1);
    plan->extremes = plan->AddScratch(kernels::DynamicQuantizeScratch(elems));
    return PlanPtr(std::move(plan));
  }

  // Weights whose columns can be read 16 bytes at a time get them side by side.
  Result<size_t> PackedBytes(int index, const TensorView& weight) const override {
    const bool packs = (index == kRnnW || index == kRnnR) && weight.rank == 3 && weight.dim[1] % 16 == 0;
    return packs ? weight.bytes() : size_t{0};
  }

  Status Pack(int, const TensorView& weight, void* packed, StreamContext& runtime) const override {
    CUDAEP_ASSIGN_OR_RETURN(const kernels::TransposePlan plan,
                            kernels::PlanTranspose(weight.dims(), Shape{0, 2, 1}, 1));
    return kernels::LaunchTranspose(plan, weight.data, packed, runtime.stream());
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<QuantizedLstmPlan>(base);
    const RnnProblem& problem = plan.problem;
    const kernels::RnnShape& s = problem.shape;
    if (s.batch * s.hidden == 0) return Status::Ok();
    const RnnTensors tensors = RnnTensorsOf(problem.cell, context);
    kernels::RnnPointers at = StatePointers(tensors);
    auto* const h = context.scratch<float>(plan.h);
    at.h = h, at.c = context.scratch(plan.c);
    CUDAEP_RETURN_IF_ERROR(kernels::LaunchRnnStart(s, problem.type, at, context.stream()));
    if (s.steps == 0) return Status::Ok();

    auto* const x_product = context.scratch<float>(plan.x_product);
    auto* const h_product = context.scratch<float>(plan.h_product);
    at.x_product = x_product, at.h_product = h_product;
    const auto* const x = static_cast<const float*>(tensors.x);
    CUDAEP_RETURN_IF_ERROR(Multiply(plan, plan.input, {x, kRnnW, kWScale, kWZero, x_product}, context));
    for (int64_t step = 0; step < s.steps; ++step) {
      CUDAEP_RETURN_IF_ERROR(Multiply(plan, plan.recurrent, {h, kRnnR, kRScale, kRZero, h_product}, context));
      CUDAEP_RETURN_IF_ERROR(kernels::LaunchLstmStep(s, problem.type, at, step, context.stream()));
    }
    return Status::Ok();
  }

 private:
  // Tensors of a product: rows of floats, the weights' inputs, the result.
  struct Operands {
    const float* rows;
    int weights, scale, zero;
    float* y;
  };

  Result<RnnProblem> Place(TensorViews inputs) const {
    return PlaceRnn(attributes_, DataType::kFloat, inputs, RnnWeights::kColumns);
  }

  kernels::IntGemm Gemm(int64_t m, int64_t n, int64_t k, int64_t ldc) const {
    return {.a_type = DataType::kUint8,
            .b_type = weight_type_,
            .y_type = DataType::kFloat,
            .m = m,
            .n = n,
            .k = k,
            .lda = k,
            .ldb = n,
            .ldc = ldc};
  }

  static kernels::RnnPointers StatePointers(const RnnTensors& tensors) {
    return {.bias = tensors.bias,
            .peephole = tensors.peephole,
            .lengths = tensors.lengths,
            .initial_h = tensors.initial_h,
            .initial_c = tensors.initial_c,
            .y = tensors.y,
            .y_h = tensors.y_h,
            .y_c = tensors.y_c};
  }

  // Quantizes the rows, those of all directions at once where they are the same, and multiplies them.
  static Status Multiply(const QuantizedLstmPlan& plan, const Product& product, const Operands& of,
                         const OpContext& context) {
    kernels::IntGemm gemm = product.gemm;
    const TensorView& weights = context.inputs[static_cast<size_t>(of.weights)];
    if (weights.packed) gemm.transpose_b = true, gemm.ldb = gemm.k;
    for (int64_t d = 0; d < plan.problem.shape.directions; ++d) {
      if (d == 0 || product.row_step != 0) {
        CUDAEP_RETURN_IF_ERROR(kernels::LaunchDynamicQuantize({.x = of.rows + d * product.row_step,
                                                               .y = context.scratch<uint8_t>(plan.codes),
                                                               .scale = context.scratch<float>(plan.scale),
                                                               .zero_point = context.scratch<uint8_t>(plan.zero),
                                                               .extremes = context.scratch<float>(plan.extremes),
                                                               .elems = gemm.m * gemm.k},
                                                              context.stream()));
      }
      const kernels::IntGemmPointers at{
          .a = context.scratch(plan.codes),
          .b = static_cast<const std::byte*>(weights.data) + d * gemm.k * gemm.n,
          .y = of.y + d * product.y_step,
          .a_zero = {context.scratch(plan.zero)},
          .b_zero = {context.input<std::byte>(of.zero) + d * product.zeros, product.zeros},
          .a_scale = {context.scratch(plan.scale)},
          .b_scale = {context.input<float>(of.scale) + d * product.scales, product.scales}};
      CUDAEP_RETURN_IF_ERROR(kernels::LaunchIntGemm(gemm, at, context.stream()));
    }
    return Status::Ok();
  }

  RnnAttributes attributes_;
  DataType weight_type_ = DataType::kInt8;
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "DynamicQuantizeLSTM",
     .types = {{"T", DataType::kFloat}, {"T1", DataType::kInt32}, {"T2", {DataType::kInt8, DataType::kUint8}}},
     .make = Make<DynamicQuantizeLstm>},
});

}  // namespace
}  // namespace cudaep::ops
