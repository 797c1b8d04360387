// RoiAlign and MaxRoiPool: pooling of regions whose corners are values on the device.
#include "kernels/detect/roi.h"

#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct RoiPlan : Plan {
  kernels::RoiShape shape;
};

// What both operators share: the attributes that make the output's shape, and where the tensors have to agree.
struct RoiGeometry {
  float scale = 1;
  int64_t height = 1, width = 1, roi_columns = 4;

  Result<kernels::RoiShape> Place(TensorViews inputs) const {
    const Dims x = inputs[0].dims(), rois = inputs[1].dims();
    if (x.size() != 4) return InvalidArgument("input X has shape ", x, ", expected four dimensions");
    if (rois.size() != 2 || rois[1] != roi_columns) {
      return InvalidArgument("input rois has shape ", rois, ", expected [regions, ", roi_columns, "]");
    }
    const kernels::RoiShape shape{.batches = x[0],
                                  .channels = x[1],
                                  .height = x[2],
                                  .width = x[3],
                                  .rois = rois[0],
                                  .out_height = height,
                                  .out_width = width,
                                  .scale = scale};
    if (shape.output_elems() != 0 && ElementCount(x) == 0) {
      return InvalidArgument("input X ", x, " is empty and has no regions");
    }
    return shape;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const {
    CUDAEP_ASSIGN_OR_RETURN(const kernels::RoiShape shape, Place(inputs));
    outputs[0] = {shape.rois, shape.channels, height, width};
    return CheckedElementCount(outputs[0]).status();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const {
    auto plan = std::make_unique<RoiPlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->shape, Place(context.inputs));
    return PlanPtr(std::move(plan));
  }
};

class RoiAlign final : public Operator {
 public:
  static Result<std::unique_ptr<RoiAlign>> Create(const OpInfo& info) {
    auto op = std::make_unique<RoiAlign>();
    op->type_ = info.input_type(0);
    op->geometry_ = {.scale = info.FloatOr("spatial_scale", 1.0f),
                     .height = info.IntOr("output_height", 1),
                     .width = info.IntOr("output_width", 1)};
    if (op->geometry_.height <= 0 || op->geometry_.width <= 0) {
      return InvalidArgument("attributes output_height and output_width are ", op->geometry_.height, " and ",
                             op->geometry_.width);
    }
    const std::string mode = info.StringOr("mode", "avg");
    if (mode != "avg" && mode != "max") return InvalidArgument("attribute mode is '", mode, "'");
    op->problem_.max = mode == "max";
    op->problem_.sampling = info.IntOr("sampling_ratio", 0);
    if (op->problem_.sampling < 0) return InvalidArgument("attribute sampling_ratio is ", op->problem_.sampling);
    if (info.since_version() < 16) return op;
    const std::string coordinates = info.StringOr("coordinate_transformation_mode", "half_pixel");
    if (coordinates != "half_pixel" && coordinates != "output_half_pixel") {
      return InvalidArgument("attribute coordinate_transformation_mode is '", coordinates, "'");
    }
    op->problem_.half_pixel = coordinates == "half_pixel";
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_RETURN_IF_ERROR(geometry_.InferShapes(inputs, outputs));
    const Dims indices = inputs[2].dims();
    if (indices.size() != 1 || indices[0] != inputs[1].dim[0]) {
      return InvalidArgument("input batch_indices has shape ", indices, " for ", inputs[1].dim[0], " regions");
    }
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override { return geometry_.MakePlan(context); }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    kernels::RoiAlign problem = problem_;
    problem.shape = PlanAs<RoiPlan>(plan).shape;
    return kernels::LaunchRoiAlign(problem, type_, context.input(0), context.input(1), context.input<int64_t>(2),
                                   context.output(0), context.stream());
  }

 private:
  DataType type_ = DataType::kFloat;
  RoiGeometry geometry_;
  kernels::RoiAlign problem_;  // without its shape
};

class MaxRoiPool final : public Operator {
 public:
  static Result<std::unique_ptr<MaxRoiPool>> Create(const OpInfo& info) {
    auto op = std::make_unique<MaxRoiPool>();
    op->type_ = info.input_type(0);
    const std::vector<int64_t> pooled = info.IntsOr("pooled_shape", {});
    if (pooled.size() != 2 || pooled[0] <= 0 || pooled[1] <= 0) {
      return InvalidArgument("attribute pooled_shape is ", Dims(pooled), ", expected two positive numbers");
    }
    op->geometry_ = {
        .scale = info.FloatOr("spatial_scale", 1.0f), .height = pooled[0], .width = pooled[1], .roi_columns = 5};
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    return geometry_.InferShapes(inputs, outputs);
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override { return geometry_.MakePlan(context); }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchMaxRoiPool(PlanAs<RoiPlan>(plan).shape, type_, context.input(0), context.input(1),
                                     context.output(0), context.stream());
  }

 private:
  DataType type_ = DataType::kFloat;
  RoiGeometry geometry_;
};

const RegisterRows kRows({
    {.op = "RoiAlign",
     .since = 10,
     .until = 22,
     .types = {{"T1", kFloatTypes}, {"T2", DataType::kInt64}},
     .make = Make<RoiAlign>},
    {.op = "MaxRoiPool", .since = 1, .until = 22, .types = {{"T", kFloatTypes}}, .make = Make<MaxRoiPool>},
});

}  // namespace
}  // namespace cudaep::ops
