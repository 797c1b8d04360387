// Resize and its predecessor Upsample, whose version 10 only says that it is gone.
#include "core/float16.h"
#include "ops/registry.h"
#include "ops/resize/resize_plan.h"

namespace cudaep::ops {
namespace {

struct ResizePlan : Plan {
  kernels::ResizeShape shape;
};

std::vector<float> ReadFloats(const TensorView& view) {
  std::vector<float> values(static_cast<size_t>(view.elems()));
  for (size_t i = 0; i < values.size(); ++i) {
    switch (view.type) {
      case DataType::kDouble:
        values[i] = static_cast<float>(view.host<double>()[i]);
        break;
      case DataType::kFloat16:
        values[i] = ToFloat(view.host<Half>()[i]);
        break;
      default:
        values[i] = view.host<float>()[i];
    }
  }
  return values;
}

class Resize : public Operator {
 public:
  static Result<std::unique_ptr<Resize>> Create(const OpInfo& info) {
    auto op = std::make_unique<Resize>();
    CUDAEP_ASSIGN_OR_RETURN(op->attributes_, ParseResize(info));
    op->type_ = info.input_type(0);
    if (!op->attributes_.nearest && !kernels::kInterpolationTypes.Contains(op->type_)) {
      return NotSupported("interpolation of element type ", DataTypeName(op->type_));
    }
    const bool is_upsample = info.op_type() == "Upsample";
    if (is_upsample && info.since_version() < 9) {
      op->fixed_scales_ = info.Floats("scales").value_or(std::vector<float>());
      if (op->fixed_scales_.empty()) return InvalidArgument("attribute scales is missing");
    }
    op->has_roi_ = !is_upsample && info.since_version() >= 11;
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<ResizeAxis> axes, AxesOf(inputs));
    outputs[0].Resize(static_cast<int>(axes.size()));
    for (size_t d = 0; d < axes.size(); ++d) outputs[0][static_cast<int>(d)] = axes[d].out;
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<ResizePlan>();
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<ResizeAxis> axes, AxesOf(context.inputs));
    CUDAEP_ASSIGN_OR_RETURN(plan->shape, PlaceResize(attributes_, axes));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const kernels::ResizeShape& shape = PlanAs<ResizePlan>(plan).shape;
    if (attributes_.nearest) {
      return kernels::LaunchResizeNearest(shape, type_, context.input(0), context.output(0), context.stream());
    }
    return kernels::LaunchResizeInterpolate(shape, attributes_.interpolation, type_, context.input(0),
                                            context.output(0), context.stream());
  }

 private:
  Result<std::vector<ResizeAxis>> AxesOf(TensorViews inputs) const {
    const auto given = [&](size_t index) { return index < inputs.size() && inputs[index].present(); };
    ResizeInputs values;
    values.scales = fixed_scales_;
    const size_t scales = has_roi_ ? 2 : 1;
    if (given(scales)) values.scales = ReadFloats(inputs[scales]);
    if (has_roi_ && given(1)) values.roi = ReadFloats(inputs[1]);
    if (has_roi_ && given(3)) {
      const auto sizes = inputs[3].host<int64_t>();
      values.sizes.assign(sizes.begin(), sizes.end());
    }
    return CombineAxes(attributes_, inputs[0].dims(), values);
  }

  ResizeAttributes attributes_;
  DataType type_ = DataType::kFloat;
  std::vector<float> fixed_scales_;  // of Upsample 7
  bool has_roi_ = false;             // inputs are X, roi, scales, sizes
};

constexpr DataTypeSet kTypesBefore13 = kFixedSizeTypes - DataTypeSet(DataType::kBFloat16);
constexpr DataTypeSet kRoiTypes{DataType::kFloat, DataType::kFloat16, DataType::kDouble};

const RegisterRows kRows({
    {.op = "Resize",
     .since = 10,
     .until = 10,
     .types = {{"T", kTypesBefore13}},
     .host_inputs = {1},
     .make = Make<Resize>},
    {.op = "Resize",
     .since = 11,
     .until = 19,
     .types = {{"T1", kFixedSizeTypes}, {"T2", kRoiTypes}},
     .host_inputs = {1, 2, 3},
     .make = Make<Resize>},
    {.op = "Upsample", .since = 7, .until = 7, .types = {{"T", kTypesBefore13}}, .make = Make<Resize>},
    {.op = "Upsample",
     .since = 9,
     .until = 10,
     .types = {{"T", kTypesBefore13}},
     .host_inputs = {1},
     .make = Make<Resize>},
});

}  // namespace
}  // namespace cudaep::ops
