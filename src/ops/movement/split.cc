#include "core/checked_math.h"
#include "ops/movement/segmented.h"
#include "ops/registry.h"
#include "ops/shape/host_ints.h"

namespace cudaep::ops {
namespace {

class Split final : public Operator {
 public:
  struct Attributes {
    int64_t axis = 0;
    std::optional<std::vector<int64_t>> sizes;  // of versions before 13
    int64_t parts = 0;
    bool uneven = false;  // whether the last of equal parts may be smaller
  };
  explicit Split(Attributes attributes) : attributes_(std::move(attributes)) {}

  static Result<std::unique_ptr<Split>> Create(const OpInfo& info) {
    const int version = info.since_version();
    const std::optional<int64_t> num_outputs = version >= 18 ? info.Int("num_outputs") : std::nullopt;
    if (num_outputs && *num_outputs != info.output_count()) {
      return InvalidArgument("num_outputs is ", *num_outputs, ", the node has ", info.output_count(), " outputs");
    }
    if (num_outputs && info.has_input(1)) return InvalidArgument("both num_outputs and the input split are given");
    return std::make_unique<Split>(Attributes{.axis = info.IntOr("axis", 0),
                                              .sizes = version < 13 ? info.Ints("split") : std::nullopt,
                                              .parts = info.output_count(),
                                              .uneven = version >= 18});
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(attributes_.axis, inputs[0].rank));
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, Sizes(inputs, axis));
    for (size_t i = 0; i < outputs.size(); ++i) {
      outputs[i].Assign(inputs[0].dims());
      outputs[i][axis] = sizes[i];
    }
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const TensorView& input = context.inputs[0];
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(attributes_.axis, input.rank));
    auto plan = MakeSegmentedPlan(input.dims(), axis, input.type, context.outputs.size(),
                                  [&](size_t i) { return context.outputs[i][axis]; });
    for (size_t i = 0; plan->rows.rows == 1 && i < plan->segments.size(); ++i) {
      plan->parts.push_back(
          {.output = static_cast<int>(i), .offset_bytes = static_cast<size_t>(plan->segments[i].offset_bytes)});
    }
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const auto& segmented = PlanAs<SegmentedPlan>(plan);
    return LaunchSegmented(
        segmented,
        [&](size_t i) {
          const bool is_there = !plan.parts.empty() && context.LiesIn(plan.parts[i]);
          return is_there ? nullptr : context.outputs[i];
        },
        [&](std::span<const kernels::Segment> parts) {
          return kernels::LaunchSplit(segmented.rows, parts, context.input(0), context.stream());
        });
  }

 private:
  // The size of each part along the axis, checked to make up the whole.
  Result<std::vector<int64_t>> Sizes(TensorViews inputs, int axis) const {
    const int64_t dim = inputs[0].dim[axis];
    std::optional<std::vector<int64_t>> sizes = attributes_.sizes;
    if (inputs.size() > 1 && inputs[1].present()) {
      CUDAEP_ASSIGN_OR_RETURN(sizes, HostInts(inputs[1], "split"));
    }
    if (!sizes) return EqualSizes(dim);
    int64_t sum = 0;
    bool valid = static_cast<int64_t>(sizes->size()) == attributes_.parts;
    for (int64_t size : *sizes) valid = valid && size >= 0 && CheckedAdd(sum, size, &sum);
    if (!valid || sum != dim) {
      return InvalidArgument("split ", Dims(*sizes), " does not divide ", dim, " along axis ", axis, " into ",
                             attributes_.parts, " parts");
    }
    return *std::move(sizes);
  }

  Result<std::vector<int64_t>> EqualSizes(int64_t dim) const {
    const int64_t parts = attributes_.parts;
    const int64_t size = CeilDiv(dim, parts);
    std::vector<int64_t> sizes(static_cast<size_t>(parts), size);
    sizes.back() = dim - size * (parts - 1);
    if (sizes.back() < 0 || (sizes.back() != size && !attributes_.uneven)) {
      return InvalidArgument("size ", dim, " cannot be split into ", parts, " equal parts");
    }
    return sizes;
  }

  Attributes attributes_;
};

const RegisterRows kRows({
    {.op = "Split", .since = 2, .until = 11, .types = {{"T", kFixedSizeTypes}}, .make = Make<Split>},
    {.op = "Split",
     .since = 13,
     .until = 18,
     .types = {{"T", kFixedSizeTypes}},
     .host_inputs = {1},
     .make = Make<Split>},
});

}  // namespace
}  // namespace cudaep::ops
