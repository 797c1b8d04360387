// DeformConv: a column matrix whose taps are moved by offsets, and the product of Conv.
#include "kernels/conv/deform_columns.h"
#include "ops/conv/conv_run.h"
#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct MovedColumns final : ColumnSource {
  kernels::DeformColumns problem;
  DataType type = DataType::kFloat;
  const std::byte *x = nullptr, *offset = nullptr, *mask = nullptr;
  int64_t x_stride = 0, offset_stride = 0, mask_stride = 0;  // bytes between images
  device::Stream stream{};

  Status Make(int64_t image, int64_t first, int64_t pixels, void* columns) const override {
    return kernels::LaunchDeformColumns(problem, type, x + image * x_stride, offset + image * offset_stride,
                                        mask == nullptr ? nullptr : mask + image * mask_stride, columns, first, pixels,
                                        stream);
  }
};

class DeformConv final : public Operator {
 public:
  explicit DeformConv(const OpInfo& info) : options_(info.settings()) {}

  static Result<std::unique_ptr<DeformConv>> Create(const OpInfo& info) {
    auto op = std::make_unique<DeformConv>(info);
    CUDAEP_ASSIGN_OR_RETURN(op->attributes_, ParseConv(info));
    op->offset_groups_ = info.IntOr("offset_group", 1);
    if (op->offset_groups_ < 1) return InvalidArgument("attribute offset_group is ", op->offset_groups_);
    op->type_ = info.input_type(0);
    const std::optional<Shape> dims = info.input_dims(0);
    if (dims && dims->rank() != 4) return NotSupported("X with ", dims->rank(), " dimensions; 4 are offered");
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const dnn::ConvProblem problem, Place(inputs));
    outputs[0] = OutputOf(problem);
    return CheckedElementCount(outputs[0]).status();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    CUDAEP_ASSIGN_OR_RETURN(dnn::ConvProblem problem, Place(context.inputs));
    problem.types = lib::MixedTypes::Of(type_);
    return PlanConvColumns(options_.product, problem, context.runtime);
  }

  LibrarySet libraries() const override { return {.blas = true}; }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<ConvRunPlan>(base);
    if (plan.route == ConvRoute::kNothing) return Status::Ok();
    const bool has_mask = HasInput(context.inputs, 4);
    const auto size = static_cast<int64_t>(SizeOf(type_));
    MovedColumns columns;
    columns.problem = {.shape = plan.columns.columns, .offset_groups = offset_groups_};
    columns.type = type_;
    columns.x = context.input<std::byte>(0), columns.offset = context.input<std::byte>(2);
    columns.mask = has_mask ? context.input<std::byte>(4) : nullptr;
    columns.x_stride = plan.columns.x_stride * size;
    columns.mask_stride = offset_groups_ * Taps(plan.problem) * plan.columns.pixels * size;
    columns.offset_stride = 2 * columns.mask_stride;
    columns.stream = context.stream();
    return EnqueueConvColumns(plan, context.runtime, columns,
                              {.w = context.input(1),
                               .bias = plan.starts_from_bias ? context.input(3) : nullptr,
                               .y = context.output(0),
                               .workspace = context.workspace});
  }

 private:
  static int64_t Taps(const dnn::ConvProblem& problem) { return problem.kernel[0] * problem.kernel[1]; }

  Result<dnn::ConvProblem> Place(TensorViews inputs) const {
    const Dims x = inputs[0].dims(), w = inputs[1].dims();
    if (x.size() != 4) return NotSupported("X with ", x.size(), " dimensions; 4 are offered");
    const Dims bias = HasInput(inputs, 3) ? inputs[3].dims() : Dims();
    CUDAEP_ASSIGN_OR_RETURN(const dnn::ConvProblem problem,
                            PlaceConv(attributes_, x, w, HasInput(inputs, 3) ? &bias : nullptr));
    if (x[1] % offset_groups_ != 0) {
      return InvalidArgument(x[1], " channels of X ", x, " do not divide into ", offset_groups_, " offset groups");
    }
    const int64_t moved = offset_groups_ * Taps(problem);
    const Shape offset{x[0], 2 * moved, problem.out[0], problem.out[1]};
    if (!SameDims(inputs[2].dims(), offset)) {
      return InvalidArgument("input offset has shape ", inputs[2].dims(), ", expected ", offset.dims());
    }
    const Shape mask{x[0], moved, problem.out[0], problem.out[1]};
    if (HasInput(inputs, 4) && !SameDims(inputs[4].dims(), mask)) {
      return InvalidArgument("input mask has shape ", inputs[4].dims(), ", expected ", mask.dims());
    }
    return problem;
  }

  ConvAttributes attributes_;
  ConvOptions options_;
  int64_t offset_groups_ = 1;
  DataType type_ = DataType::kFloat;
};

const RegisterRows kRows({
    {.op = "DeformConv", .since = 19, .until = 22, .types = {{"T", kernels::kDeformTypes}}, .make = Make<DeformConv>},
});

}  // namespace
}  // namespace cudaep::ops
