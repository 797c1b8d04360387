// Roll, which compiled regions make of torch.roll and what moves its input and output: x is reshaped to "source_dims"
// and put in the order "source_perm", which is a tensor of "dims"; element i of its axes is then element i + "shifts"
// (modulo the size); that is reshaped to "target_dims", put in the order "target_perm", and has dimensions "shape". In
// a list of dimensions one may be -1, whatever is left.
#include <algorithm>

#include "kernels/movement/rolled_copy.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct RollPlan : Plan {
  kernels::RolledCopy copy;
};

class Roll final : public Operator {
 public:
  static Result<std::unique_ptr<Roll>> Create(const OpInfo& info) {
    auto op = std::make_unique<Roll>();
    for (const auto& [name, list] : {std::pair{"source_dims", &op->source_dims_},
                                     {"dims", &op->dims_},
                                     {"target_dims", &op->target_dims_},
                                     {"shape", &op->shape_}}) {
      *list = info.IntsOr(name, {});
      const bool is_stated = std::ranges::all_of(*list, [](int64_t size) { return size > 0 || size == -1; });
      if (!is_stated || std::ranges::count(*list, -1) > 1) {
        return InvalidArgument(name, ' ', Dims(*list), " must be sizes, of which one may be -1");
      }
    }
    op->shifts_ = info.IntsOr("shifts", {});
    op->source_perm_ = info.IntsOr("source_perm", {});
    op->target_perm_ = info.IntsOr("target_perm", {});
    if (op->source_dims_.size() > kernels::kMostRolledAtoms || op->target_dims_.size() > kernels::kMostRolledAtoms ||
        op->dims_.size() > kernels::kMostRolledAxes || op->shape_.size() > kernels::kMostRolledAtoms) {
      return NotSupported("dimensions ", Dims(op->source_dims_), ", ", Dims(op->dims_), " and ", Dims(op->target_dims_),
                          " are too many");
    }
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(outputs[0], Sized(shape_, inputs[0]));
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const TensorView& x = context.inputs[0];
    CUDAEP_ASSIGN_OR_RETURN(const Shape source, Sized(source_dims_, x));
    CUDAEP_ASSIGN_OR_RETURN(const Shape dims, Sized(dims_, x));
    CUDAEP_ASSIGN_OR_RETURN(const Shape target, Sized(target_dims_, x));
    auto plan = std::make_unique<RollPlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->copy, kernels::MakeRolledCopy({.source_dims = source,
                                                                 .source_perm = source_perm_,
                                                                 .dims = dims,
                                                                 .shifts = shifts_,
                                                                 .target_dims = target,
                                                                 .target_perm = target_perm_},
                                                                SizeOf(x.type)));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchRolledCopy(PlanAs<RollPlan>(plan).copy, context.input(0), context.output(0),
                                     context.stream());
  }

 private:
  // The list with what is left in place of -1.
  static Result<Shape> Sized(const std::vector<int64_t>& list, const TensorView& x) {
    const int64_t elems = x.elems();
    int64_t others = 1;
    bool fits = true;
    for (const int64_t size : list) fits = fits && (size == -1 || CheckedMultiply(others, size, &others));
    const bool is_open = std::ranges::find(list, -1) != list.end();
    if (!fits || (is_open ? elems % others != 0 : elems != others)) {
      return InvalidArgument("a tensor of shape ", x.dims(), " has no dimensions ", Dims(list));
    }
    Shape sized{Dims(list)};
    for (int d = 0; d < sized.rank(); ++d) {
      if (sized[d] == -1) sized[d] = elems / others;
    }
    return sized;
  }

  std::vector<int64_t> source_dims_, source_perm_, dims_, shifts_, target_dims_, target_perm_, shape_;
};

const RegisterRows kRows(
    {{.domain = kFusedDomain, .op = "Roll", .types = {{"T", kFixedSizeTypes}}, .make = Make<Roll>}});

}  // namespace
}  // namespace cudaep::ops
