// Scatter, ScatterElements and ScatterND. In the buffer of the data only the updates are written; otherwise the data is
// copied first.
#include "kernels/movement/scatter.h"

#include "ops/registry.h"

namespace cudaep::ops {
namespace {

using kernels::ScatterReduction;

struct ScatterPlan : Plan {
  kernels::ScatterSorted sorted;
  bool uses_sorted = false;
  size_t bytes = 0;  // of the data
};

Result<ScatterReduction> ReductionOf(const OpInfo& info) {
  const std::string name = info.since_version() >= 16 ? info.StringOr("reduction", "none") : "none";
  if (name == "none") return ScatterReduction::kNone;
  if (!kernels::kScatterReductionTypes.Contains(info.input_type(0))) {
    return NotSupported("reduction '", name, "' of ", DataTypeName(info.input_type(0)));
  }
  if (name == "add") return ScatterReduction::kAdd;
  if (name == "mul") return ScatterReduction::kMul;
  if (name == "max" && info.since_version() >= 18) return ScatterReduction::kMax;
  if (name == "min" && info.since_version() >= 18) return ScatterReduction::kMin;
  return InvalidArgument("reduction '", name, "' is not one of version ", info.since_version());
}

// What becomes of the updates, whatever they are named by.
class ScatterBase : public Operator {
 public:
  ScatterBase(ScatterReduction reduction, bool deterministic) : reduction_(reduction), deterministic_(deterministic) {}

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<ScatterPlan>();
    CUDAEP_ASSIGN_OR_RETURN(kernels::Scatter scatter, Describe(context.inputs));
    scatter.reduction = reduction_;
    scatter.type = context.inputs[0].type;
    plan->sorted = kernels::PlanScatterSorted(scatter);
    plan->uses_sorted = NeedsOrder(scatter.type);
    plan->bytes = context.inputs[0].bytes();
    if (plan->uses_sorted) plan->workspace_bytes = plan->sorted.scratch_bytes();
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<ScatterPlan>(base);
    if (!context.Shares(0, 0)) {
      CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(context.output(0), context.input(0), plan.bytes, context.stream()));
    }
    kernels::Scatter scatter = plan.sorted.scatter;
    scatter.tuples.indices = {context.input(1), context.inputs[1].type == DataType::kInt64};
    return plan.uses_sorted ? kernels::LaunchScatterSorted(plan.sorted, scatter, context.input(2), context.output(0),
                                                           context.workspace, context.stream())
                            : kernels::LaunchScatter(scatter, context.input(2), context.output(0), context.stream());
  }

 protected:
  virtual Result<kernels::Scatter> Describe(TensorViews inputs) const = 0;

 private:
  bool NeedsOrder(DataType type) const {
    if (reduction_ == ScatterReduction::kNone) return deterministic_;
    if (SizeOf(type) == 1) return true;  // there are no atomics for them
    const bool rounds = reduction_ == ScatterReduction::kAdd || reduction_ == ScatterReduction::kMul;
    return deterministic_ && rounds && kFloatTypes.Contains(type);
  }

  ScatterReduction reduction_;
  bool deterministic_;
};

class ScatterElements final : public ScatterBase {
 public:
  ScatterElements(ScatterReduction reduction, bool deterministic, int64_t axis)
      : ScatterBase(reduction, deterministic), axis_(axis) {}

  static Result<std::unique_ptr<ScatterElements>> Create(const OpInfo& info) {
    CUDAEP_ASSIGN_OR_RETURN(const ScatterReduction reduction, ReductionOf(info));
    return std::make_unique<ScatterElements>(reduction, info.settings().deterministic, info.IntOr("axis", 0));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims data = inputs[0].dims(), indices = inputs[1].dims(), updates = inputs[2].dims();
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, inputs[0].rank));
    if (!SameDims(indices, updates)) {
      return InvalidArgument("indices of shape ", indices, " and updates of shape ", updates, " differ");
    }
    bool fits = data.size() == indices.size();
    for (size_t d = 0; fits && d < data.size(); ++d) fits = static_cast<int>(d) == axis || indices[d] <= data[d];
    if (!fits) return InvalidArgument("indices of shape ", indices, " do not fit data of shape ", data);
    outputs[0].Assign(data);
    return Status::Ok();
  }

 protected:
  Result<kernels::Scatter> Describe(TensorViews inputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, inputs[0].rank));
    Shape strides = ContiguousStrides(inputs[0].dims());
    kernels::Scatter scatter{.count = inputs[1].elems()};
    scatter.tuples.length = 1;
    scatter.tuples.size[0] = inputs[0].dim[axis];
    scatter.tuples.stride[0] = strides[axis];
    strides[axis] = 0;
    CUDAEP_ASSIGN_OR_RETURN(scatter.base, kernels::MakeStridedCopy(inputs[1].dims(), strides, 0, 1));
    return scatter;
  }

 private:
  int64_t axis_;
};

class ScatterND final : public ScatterBase {
 public:
  using ScatterBase::ScatterBase;

  static Result<std::unique_ptr<ScatterND>> Create(const OpInfo& info) {
    CUDAEP_ASSIGN_OR_RETURN(const ScatterReduction reduction, ReductionOf(info));
    return std::make_unique<ScatterND>(reduction, info.settings().deterministic);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims data = inputs[0].dims(), indices = inputs[1].dims(), updates = inputs[2].dims();
    if (indices.empty() || static_cast<size_t>(indices.back()) > data.size()) {
      return InvalidArgument("indices of shape ", indices, " do not fit data of shape ", data);
    }
    const Dims outer = indices.first(indices.size() - 1);
    const Dims row = data.subspan(static_cast<size_t>(indices.back()));
    const bool fits = updates.size() == outer.size() + row.size() && SameDims(updates.first(outer.size()), outer) &&
                      SameDims(updates.subspan(outer.size()), row);
    if (!fits) {
      return InvalidArgument("updates of shape ", updates, " do not fit indices of shape ", indices,
                             " and data of shape ", data);
    }
    outputs[0].Assign(data);
    return Status::Ok();
  }

 protected:
  Result<kernels::Scatter> Describe(TensorViews inputs) const override {
    const Dims data = inputs[0].dims(), indices = inputs[1].dims();
    const auto named = static_cast<size_t>(indices.back());
    kernels::Scatter scatter{.count = ElementCount(indices.first(indices.size() - 1)),
                             .row_elems = ElementCount(data.subspan(named))};
    CUDAEP_ASSIGN_OR_RETURN(scatter.tuples, kernels::MakeIndexTuples(data.first(named)));
    return scatter;
  }
};

const RegisterRows kRows({
    {.op = "Scatter",
     .since = 9,
     .until = 11,
     .types = {{"T", kFixedSizeTypes - DataTypeSet(DataType::kBFloat16)}, {"Tind", kIndexTypes}},
     .in_place = {{0, 0}},
     .make = Make<ScatterElements>},
    {.op = "ScatterElements",
     .since = 11,
     .until = 18,
     .types = {{"T", kFixedSizeTypes}, {"Tind", kIndexTypes}},
     .in_place = {{0, 0}},
     .make = Make<ScatterElements>},
    {.op = "ScatterND",
     .since = 11,
     .until = 18,
     .types = {{"T", kFixedSizeTypes}},
     .in_place = {{0, 0}},
     .make = Make<ScatterND>},
});

}  // namespace
}  // namespace cudaep::ops
