// GridSample, also com.microsoft's, and AffineGrid.
#include "kernels/sample/grid_sample.h"

#include <algorithm>

#include "core/checked_math.h"
#include "ops/image_layout.h"
#include "ops/shape/host_ints.h"

namespace cudaep::ops {
namespace {

using kernels::SampleMode;
using kernels::SamplePadding;

struct GridSamplePlan : Plan {
  kernels::GridSample problem;
};

// Names of modes changed with version 20.
Result<SampleMode> ParseMode(const std::string& name) {
  if (name == "bilinear" || name == "linear") return SampleMode::kLinear;
  if (name == "bicubic" || name == "cubic") return SampleMode::kCubic;
  if (name == "nearest") return SampleMode::kNearest;
  return InvalidArgument("attribute mode is '", name, "', which ONNX does not define");
}

Result<SamplePadding> ParsePadding(const std::string& name) {
  if (name == "zeros") return SamplePadding::kZeros;
  if (name == "border") return SamplePadding::kBorder;
  if (name == "reflection") return SamplePadding::kReflection;
  return InvalidArgument("attribute padding_mode is '", name, "', which ONNX does not define");
}

class GridSample final : public Operator {
 public:
  static Result<std::unique_ptr<GridSample>> Create(const OpInfo& info) {
    auto op = std::make_unique<GridSample>();
    CUDAEP_ASSIGN_OR_RETURN(op->attributes_.mode, ParseMode(info.StringOr("mode", "linear")));
    CUDAEP_ASSIGN_OR_RETURN(op->attributes_.padding, ParsePadding(info.StringOr("padding_mode", "zeros")));
    op->attributes_.align_corners = info.BoolOr("align_corners", false);
    op->attributes_.channels_last = info.domain() == kNhwcDomain;
    op->type_ = info.input_type(0), op->grid_type_ = info.input_type(1);
    if (op->attributes_.mode != SampleMode::kNearest && !kernels::kSampleTypes.Contains(op->type_)) {
      return NotSupported("interpolation of element type ", DataTypeName(op->type_));
    }
    if (info.output_type(0) != op->type_) {
      return NotSupported("samples of ", DataTypeName(op->type_), " as ", DataTypeName(info.output_type(0)));
    }
    const std::optional<Shape> dims = info.input_dims(0);
    if (dims && dims->rank() != 4 && dims->rank() != 5) {
      return NotSupported("samples of X with ", dims->rank(), " dimensions; 4 and 5 are offered");
    }
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_RETURN_IF_ERROR(Place(inputs).status());
    const Dims grid = inputs[1].dims();
    Shape y = ChannelsFirst(inputs[0].dims(), attributes_.channels_last);
    for (int d = 2; d < y.rank(); ++d) y[d] = grid[static_cast<size_t>(d) - 1];
    outputs[0] = InLayout(y, attributes_.channels_last);
    return CheckedElementCount(outputs[0]).status();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<GridSamplePlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->problem, Place(context.inputs));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchGridSample(PlanAs<GridSamplePlan>(plan).problem, type_, grid_type_, context.input(0),
                                     context.input(1), context.output(0), context.stream());
  }

 private:
  Result<kernels::GridSample> Place(TensorViews inputs) const {
    const Shape image = ChannelsFirst(inputs[0].dims(), attributes_.channels_last);
    const Dims x = image, grid = inputs[1].dims();
    if (x.size() != 4 && x.size() != 5) {
      return NotSupported("samples of X with ", x.size(), " dimensions; 4 and 5 are offered");
    }
    const auto rank = static_cast<int64_t>(x.size()) - 2;
    if (grid.size() != x.size() || grid[0] != x[0] || grid.back() != rank) {
      return InvalidArgument("grid ", grid, " does not fit X ", x, ": one vector of ", rank, " for each output of ",
                             x[0], " images is needed");
    }
    kernels::GridSample problem = attributes_;
    problem.batch = x[0], problem.channels = x[1];
    problem.rank = static_cast<int32_t>(rank);
    problem.points = ElementCount(grid.subspan(1, grid.size() - 2));
    std::copy(x.begin() + 2, x.end(), problem.in + 3 - rank);
    if (problem.output_elems() != 0 && ElementCount(x) == 0) {
      return InvalidArgument("X ", x, " is empty and has no samples");
    }
    return problem;
  }

  kernels::GridSample attributes_;  // without its sizes
  DataType type_ = DataType::kFloat, grid_type_ = DataType::kFloat;
};

struct AffineGridPlan : Plan {
  kernels::AffineGrid problem;
};

class AffineGrid final : public Operator {
 public:
  static Result<std::unique_ptr<AffineGrid>> Create(const OpInfo& info) {
    auto op = std::make_unique<AffineGrid>();
    op->align_corners_ = info.BoolOr("align_corners", false);
    op->type_ = info.input_type(0);
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const kernels::AffineGrid problem, Place(inputs));
    outputs[0] = Shape{problem.batch};
    for (int d = 3 - problem.rank; d < 3; ++d) outputs[0].Append(problem.size[d]);
    outputs[0].Append(problem.rank);
    return CheckedElementCount(outputs[0]).status();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<AffineGridPlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->problem, Place(context.inputs));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchAffineGrid(PlanAs<AffineGridPlan>(plan).problem, type_, context.input(0), context.output(0),
                                     context.stream());
  }

 private:
  Result<kernels::AffineGrid> Place(TensorViews inputs) const {
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<int64_t> size, HostInts(inputs[1], "size"));
    const Dims theta = inputs[0].dims();
    if (size.size() != 4 && size.size() != 5) {
      return InvalidArgument("size ", Dims(size), " must have four or five numbers");
    }
    const auto rank = static_cast<int64_t>(size.size()) - 2;
    const Shape wanted{size[0], rank, rank + 1};
    if (!SameDims(theta, wanted)) {
      return InvalidArgument("theta has shape ", theta, ", expected ", wanted.dims(), " for size ", Dims(size));
    }
    CUDAEP_RETURN_IF_ERROR(CheckedElementCount(size).status());
    kernels::AffineGrid problem{.batch = size[0], .rank = static_cast<int32_t>(rank), .align_corners = align_corners_};
    std::copy(size.begin() + 2, size.end(), problem.size + 3 - rank);
    return problem;
  }

  bool align_corners_ = false;
  DataType type_ = DataType::kFloat;
};

constexpr DataTypeSet kGridTypes = kernels::kSampleTypes;
constexpr DataTypeSet kMicrosoftTypes = kGridTypes - DataTypeSet(DataType::kBFloat16);

const RegisterRows kInBothLayouts(InBothLayouts({{.op = "GridSample",
                                                  .since = 16,
                                                  .until = 22,
                                                  .types = {{"T1", kFixedSizeTypes}, {"T2", kGridTypes}},
                                                  .make = Make<GridSample>}}));
const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "GridSample",
     .since = 1,
     .until = 1,
     .types = {{"T1", kMicrosoftTypes}, {"T2", kMicrosoftTypes}},
     .make = Make<GridSample>},
    {.op = "AffineGrid",
     .since = 20,
     .until = 20,
     .types = {{"T1", kGridTypes}, {"T2", DataType::kInt64}},
     .host_inputs = {1},
     .make = Make<AffineGrid>},
});

}  // namespace
}  // namespace cudaep::ops
