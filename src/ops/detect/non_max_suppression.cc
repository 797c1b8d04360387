// NonMaxSuppression: scores are sorted class by class, then boxes are kept in that order. NaN is below any threshold
// and, where there is none, before all numbers, as in TopK; the CPU provider's heap has no order for it.
#include "kernels/detect/non_max_suppression.h"

#include <algorithm>

#include "core/checked_math.h"
#include "kernels/sort/top_k.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct SuppressionPlan : Plan {
  kernels::NonMaxSuppression problem;
  kernels::TopK sort;
  size_t order = 0, sort_scratch = 0, kept = 0, counts = 0;
};

// The one value of an optional host input.
template <class T>
Result<T> ScalarOr(TensorViews inputs, size_t index, const char* name, T fallback) {
  if (index >= inputs.size() || !inputs[index].present()) return fallback;
  if (inputs[index].elems() != 1) {
    return InvalidArgument("input ", name, " has shape ", inputs[index].dims(), ", expected one element");
  }
  return inputs[index].host<T>()[0];
}

class NonMaxSuppression final : public Operator {
 public:
  static Result<std::unique_ptr<NonMaxSuppression>> Create(const OpInfo& info) {
    auto op = std::make_unique<NonMaxSuppression>();
    const int64_t center = info.IntOr("center_point_box", 0);
    if (center != 0 && center != 1) return InvalidArgument("attribute center_point_box is ", center);
    op->center_ = center == 1;
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const kernels::NonMaxSuppression problem, Place(inputs));
    outputs[0] = Shape{problem.rows() * problem.most == 0 ? 0 : kUnknownDim, 3};
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<SuppressionPlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->problem, Place(context.inputs));
    const kernels::NonMaxSuppression& p = plan->problem;
    if (p.rows() * p.most == 0) return PlanPtr(std::move(plan));
    plan->sort = {.type = DataType::kFloat, .outer = p.rows(), .axis = p.boxes, .inner = 1, .k = p.boxes};
    plan->order = plan->AddScratch(static_cast<size_t>(p.rows() * p.boxes) * sizeof(int64_t));
    plan->sort_scratch = plan->AddScratch(plan->sort.scratch_bytes());
    plan->kept = plan->AddScratch(static_cast<size_t>(p.rows() * p.most) * sizeof(int32_t));
    plan->counts = plan->AddScratch(static_cast<size_t>(p.rows() + 1) * sizeof(int64_t));
    plan->synchronizes = true;
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<SuppressionPlan>(base);
    const kernels::NonMaxSuppression& p = plan.problem;
    if (p.rows() * p.most == 0) return Status::Ok();
    auto* const order = context.scratch<int64_t>(plan.order);
    auto* const kept = context.scratch<int32_t>(plan.kept);
    auto* const counts = context.scratch<int64_t>(plan.counts);
    const auto* const scores = context.input<float>(1);
    CUDAEP_RETURN_IF_ERROR(
        kernels::LaunchTopK(plan.sort, scores, nullptr, order, context.scratch(plan.sort_scratch), context.stream()));
    CUDAEP_RETURN_IF_ERROR(
        kernels::LaunchSuppress(p, context.input<float>(0), scores, order, kept, counts, context.stream()));
    int64_t total = 0;
    CUDAEP_RETURN_IF_ERROR(context.ReadBack(counts + p.rows(), sizeof(total), &total));
    CUDAEP_ASSIGN_OR_RETURN(void* const out, context.Output(0, Shape{total, 3}));
    if (out == nullptr) return Status::Ok();
    return kernels::LaunchWriteSelected(p, kept, counts, static_cast<int64_t*>(out), context.stream());
  }

 private:
  Result<kernels::NonMaxSuppression> Place(TensorViews inputs) const {
    const Dims boxes = inputs[0].dims(), scores = inputs[1].dims();
    const bool fits =
        boxes.size() == 3 && scores.size() == 3 && boxes[2] == 4 && boxes[0] == scores[0] && boxes[1] == scores[2];
    if (!fits) {
      return InvalidArgument("boxes ", boxes, " and scores ", scores, " are not [batches, boxes, 4] and ",
                             "[batches, classes, boxes]");
    }
    if (!FitsInt32(boxes[1])) return NotSupported(boxes[1], " boxes");
    kernels::NonMaxSuppression p{.batches = scores[0], .classes = scores[1], .boxes = boxes[1], .center = center_};
    CUDAEP_ASSIGN_OR_RETURN(const int64_t most, ScalarOr<int64_t>(inputs, 2, "max_output_boxes_per_class", 0));
    CUDAEP_ASSIGN_OR_RETURN(p.overlap, ScalarOr<float>(inputs, 3, "iou_threshold", 0.0f));
    CUDAEP_ASSIGN_OR_RETURN(p.score, ScalarOr<float>(inputs, 4, "score_threshold", 0.0f));
    p.most = std::clamp<int64_t>(most, 0, p.boxes);
    p.has_threshold = inputs.size() > 4 && inputs[4].present();
    if (!(p.overlap >= 0.0f && p.overlap <= 1.0f)) {
      return InvalidArgument("iou_threshold ", p.overlap, " is outside [0, 1]");
    }
    return p;
  }

  bool center_ = false;
};

const RegisterRows kRows({
    {.op = "NonMaxSuppression",
     .since = 10,
     .until = 11,
     .host_inputs = {2, 3, 4},
     .open_shapes = true,
     .make = Make<NonMaxSuppression>},
});

}  // namespace
}  // namespace cudaep::ops
