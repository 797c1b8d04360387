// ConvInteger and QLinearConv, of ONNX and of com.microsoft: a column matrix and a product of 8-bit integers.
#include <algorithm>

#include "kernels/index_limit.h"
#include "kernels/quant/int_gemm.h"
#include "ops/conv/conv_plan.h"
#include "ops/library_limits.h"
#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum class Variant { kInteger, kLinear };

// Where each variant has its inputs; kNone for those it lacks.
constexpr int kNone = -1;
struct Inputs {
  int w, x_zero, w_zero, x_scale = kNone, w_scale = kNone, y_scale = kNone, y_zero = kNone, bias = kNone;
};
constexpr Inputs kOfInteger{.w = 1, .x_zero = 2, .w_zero = 3};
constexpr Inputs kOfLinear{
    .w = 3, .x_zero = 2, .w_zero = 5, .x_scale = 1, .w_scale = 4, .y_scale = 6, .y_zero = 7, .bias = 8};

struct ConvIntegerPlan : Plan {
  ColumnConv columns;
  int64_t group_images = 1;  // whose columns are made together
  int64_t w_zero = 1, w_scale = 1;
};

class ConvInteger final : public Operator {
 public:
  ConvInteger(Variant variant, ConvAttributes attributes, const OpInfo& info)
      : at_(variant == Variant::kInteger ? kOfInteger : kOfLinear),
        attributes_(std::move(attributes)),
        x_type_(info.input_type(0)),
        w_type_(info.input_type(at_.w)),
        y_type_(info.output_type(0)),
        deterministic_(info.settings().deterministic) {}

  static Result<std::unique_ptr<ConvInteger>> Create(const OpInfo& info, const KernelRow& row) {
    if (info.BoolOr("channels_last", false)) return NotSupported("channels_last");
    CUDAEP_ASSIGN_OR_RETURN(ConvAttributes attributes, ParseConv(info));
    return std::make_unique<ConvInteger>(row.VariantAs<Variant>(), std::move(attributes), info);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const dnn::ConvProblem problem, ProblemOf(inputs));
    for (const int single : {at_.x_zero, at_.x_scale, at_.y_scale, at_.y_zero}) {
      const TensorView view = InputAt(inputs, single);
      if (view.present() && view.elems() != 1) {
        return InvalidArgument("input ", single, " with shape ", view.dims(), " must be one element");
      }
    }
    for (const int channels : {at_.w_zero, at_.w_scale}) {
      const TensorView view = InputAt(inputs, channels);
      if (view.present() && view.elems() != 1 && view.elems() != problem.out_channels) {
        return InvalidArgument("input ", channels, " with shape ", view.dims(), " must have one element or ",
                               problem.out_channels, ", the output channels");
      }
    }
    outputs[0] = OutputOf(problem);
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<ConvIntegerPlan>();
    CUDAEP_ASSIGN_OR_RETURN(const dnn::ConvProblem problem, ProblemOf(context.inputs));
    if (context.outputs[0].elems() == 0) return PlanPtr(std::move(plan));
    // Columns that 32 bits do not count come in chunks too, so that tests reach those.
    const size_t limit =
        std::min(AvailableWorkspace(context.runtime, deterministic_), static_cast<size_t>(kernels::index_limit));
    plan->columns = PlaceColumns(problem, limit);
    const ColumnConv& columns = plan->columns;
    if (columns.direct) {
      plan->group_images = columns.images;
    } else if (columns.chunk == columns.pixels) {
      const int64_t most = std::min<int64_t>(kColumnBytes, static_cast<int64_t>(limit));
      plan->group_images = std::clamp<int64_t>(most / std::max<int64_t>(columns.column_elems, 1), 1, columns.images);
    }
    plan->workspace_bytes = static_cast<size_t>(columns.column_elems * plan->group_images);
    const auto period = [&](int index) { return std::max<int64_t>(InputAt(context.inputs, index).elems(), 1); };
    plan->w_zero = period(at_.w_zero);
    plan->w_scale = at_.w_scale == kNone ? 1 : period(at_.w_scale);
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const auto& p = PlanAs<ConvIntegerPlan>(plan);
    const ColumnConv& columns = p.columns;
    const auto* const x = context.input<std::byte>(0);
    auto* const y = context.output<std::byte>(0);
    for (int64_t image = 0; image < columns.images; image += p.group_images) {
      const int64_t images = std::min(p.group_images, columns.images - image);
      for (int64_t first = 0; first < columns.pixels; first += columns.chunk) {
        const int64_t pixels = std::min(columns.chunk, columns.pixels - first);
        const std::byte* matrix = x + image * columns.x_stride;
        if (!columns.direct) {
          kernels::Im2col shape = columns.columns;
          shape.images = images;
          CUDAEP_RETURN_IF_ERROR(kernels::LaunchIm2col(shape, 1, matrix, context.workspace, first, pixels,
                                                       context.stream(), InputAt(context.inputs, at_.x_zero).data));
          matrix = static_cast<const std::byte*>(context.workspace);
        }
        std::byte* const result = y + (image * columns.y_stride + first) * static_cast<int64_t>(SizeOf(y_type_));
        CUDAEP_RETURN_IF_ERROR(EnqueueProduct(p, images, pixels, matrix, result, context));
      }
    }
    return Status::Ok();
  }

 private:
  // What a chunk's columns may take together for several images.
  static constexpr int64_t kColumnBytes = int64_t{32} << 20;

  Result<dnn::ConvProblem> ProblemOf(TensorViews inputs) const {
    const TensorView bias = InputAt(inputs, at_.bias);
    const Dims bias_dims = bias.present() ? bias.dims() : Dims();
    CUDAEP_ASSIGN_OR_RETURN(
        dnn::ConvProblem problem,
        PlaceConv(attributes_, inputs[0].dims(), InputAt(inputs, at_.w).dims(), bias.present() ? &bias_dims : nullptr));
    problem.types = lib::MixedTypes::Of(DataType::kInt8);
    return problem;
  }

  // Rows are output channels, columns are pixels.
  Status EnqueueProduct(const ConvIntegerPlan& p, int64_t images, int64_t pixels, const std::byte* matrix,
                        std::byte* result, const OpContext& context) const {
    const int64_t channels = p.outputs[0][1];
    const blas::GemmProblem product = p.columns.ProductOf(pixels);
    kernels::IntGemm gemm{.a_type = w_type_,
                          .b_type = x_type_,
                          .y_type = y_type_,
                          .m = product.m,
                          .n = product.n,
                          .k = product.k,
                          .lda = product.lda,
                          .ldb = product.ldb,
                          .ldc = product.ldc,
                          .bias_of_rows = true};
    const blas::BatchDim& groups = p.columns.product.batch[0];
    const int64_t stride_b = p.columns.direct ? groups.stride_b : product.batch[0].stride_b;
    gemm.batch[0] = {groups.size, groups.stride_a, stride_b, groups.stride_c};
    gemm.batch[1] = {images, 0, groups.size * stride_b, p.columns.y_stride};
    const auto data = [&](int index) { return InputAt(context.inputs, index).data; };
    return kernels::LaunchIntGemm(gemm,
                                  {.a = data(at_.w),
                                   .b = matrix,
                                   .y = result,
                                   .a_zero = {data(at_.w_zero), p.w_zero},
                                   .b_zero = {data(at_.x_zero), 1},
                                   .a_scale = {data(at_.w_scale), p.w_scale},
                                   .b_scale = {data(at_.x_scale), 1},
                                   .y_scale = data(at_.y_scale),
                                   .y_zero = data(at_.y_zero),
                                   .bias = {data(at_.bias), std::max<int64_t>(channels, 1)}},
                                  context.stream());
  }

  Inputs at_;
  ConvAttributes attributes_;
  DataType x_type_, w_type_, y_type_;
  bool deterministic_;
};

KernelRow LinearRow(const char* domain, int since) {
  return {.domain = domain,
          .op = "QLinearConv",
          .since = since,
          .until = since,
          .types = {{"T1", kInt8Types}, {"T2", kInt8Types}, {"T3", kInt8Types}, {"T4", DataType::kInt32}},
          .variant = static_cast<int>(Variant::kLinear),
          .make = Make<ConvInteger>};
}

const RegisterRows kRows({
    {.op = "ConvInteger",
     .since = 10,
     .until = 10,
     .types = {{"T1", kInt8Types}, {"T2", kInt8Types}, {"T3", DataType::kInt32}},
     .variant = static_cast<int>(Variant::kInteger),
     .make = Make<ConvInteger>},
    LinearRow(kOnnxDomain, 10),
    LinearRow(kMicrosoftDomain, 1),
});

}  // namespace
}  // namespace cudaep::ops
