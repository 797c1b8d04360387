// TensorScatter: writes new rows into a cache along its sequence axis. Where the new cache lies in the buffer of the
// old one only the rows are written; otherwise the old one is copied first.
#include "kernels/movement/scatter_rows.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct TensorScatterPlan : Plan {
  kernels::ScatterRows rows;
  size_t bytes = 0;  // of the cache
};

class TensorScatter final : public Operator {
 public:
  TensorScatter(int64_t axis, bool circular) : axis_(axis), circular_(circular) {}

  static Result<std::unique_ptr<TensorScatter>> Create(const OpInfo& info) {
    const std::string mode = info.StringOr("mode", "linear");
    if (mode != "linear" && mode != "circular") {
      return InvalidArgument("mode '", mode, "' is neither linear nor circular");
    }
    return std::make_unique<TensorScatter>(info.IntOr("axis", -2), mode == "circular");
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_RETURN_IF_ERROR(Rows(inputs).status());
    outputs[0].Assign(inputs[0].dims());
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<TensorScatterPlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->rows, Rows(context.inputs));
    plan->bytes = context.inputs[0].bytes();
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<TensorScatterPlan>(base);
    if (!context.Shares(0, 0)) {
      CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(context.output(0), context.input(0), plan.bytes, context.stream()));
    }
    const auto* const positions = context.inputs.size() > 2 ? context.input<int64_t>(2) : nullptr;
    return kernels::LaunchScatterRows(plan.rows, context.input(1), positions, context.output(0), context.stream());
  }

 private:
  // Dimension 0 is the batch, which has write indices of its own, so the axis is another.
  Result<kernels::ScatterRows> Rows(TensorViews inputs) const {
    const TensorView &cache = inputs[0], &update = inputs[1];
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, cache.rank));
    if (axis == 0) return InvalidArgument("axis ", axis_, " of cache ", cache.dims(), " is the batch");
    bool fits = update.rank == cache.rank && update.dim[axis] <= cache.dim[axis];
    for (int i = 0; fits && i < cache.rank; ++i) fits = i == axis || update.dim[i] == cache.dim[i];
    if (!fits) return InvalidArgument("update ", update.dims(), " does not fit cache ", cache.dims());
    if (inputs.size() > 2 && inputs[2].present() && (inputs[2].rank != 1 || inputs[2].dim[0] != cache.dim[0])) {
      return InvalidArgument("write indices ", inputs[2].dims(), " of a batch of ", cache.dim[0]);
    }
    const auto at = static_cast<size_t>(axis);
    return kernels::ScatterRows{
        .batch = cache.dim[0],
        .outer = ElementCount(cache.dims().subspan(1, at - 1)),
        .length = cache.dim[axis],
        .count = update.dim[axis],
        .row_bytes = ElementCount(cache.dims().subspan(at + 1)) * static_cast<int64_t>(SizeOf(cache.type)),
        .circular = circular_ ? 1 : 0};
  }

  int64_t axis_;
  bool circular_;
};

const RegisterRows kRows({
    {.op = "TensorScatter",
     .since = 24,
     .until = 24,
     .types = {{"T", kAnySizedTypes | DataTypeSet(DataType::kFloat8E8M0)}},
     .in_place = {{0, 0}},
     .make = Make<TensorScatter>},
});

}  // namespace
}  // namespace cudaep::ops
