// Unique: the distinct elements, or the distinct slices along an axis, with where they come from. That of com.microsoft
// takes a vector and gives values in the order of their first places, without these.
#include "kernels/sort/unique.h"

#include "kernels/movement/gather.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct UniquePlan : Plan {
  kernels::Unique unique;
  kernels::GatherShape gather;  // without its count
  size_t keys = 0, order = 0, heads = 0, firsts = 0, flags = 0, counts = 0;
};

class Unique final : public Operator {
 public:
  // Which output is what; one that there is not is beyond all.
  struct Layout {
    int firsts = 1, inverse = 2, counts = 3;
  };
  Unique(std::optional<int64_t> axis, bool sorted, Layout layout) : axis_(axis), sorted_(sorted), layout_(layout) {}

  static Result<std::unique_ptr<Unique>> Create(const OpInfo& info) {
    if (info.domain() == kMicrosoftDomain) {
      return std::make_unique<Unique>(std::nullopt, false, Layout{.firsts = INT_MAX, .inverse = 1, .counts = 2});
    }
    return std::make_unique<Unique>(info.Int("axis"), info.BoolOr("sorted", true), Layout{});
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const kernels::Unique unique, Describe(inputs[0]));
    CUDAEP_ASSIGN_OR_RETURN(outputs[0], ValuesShape(inputs[0], kUnknownDim));
    for (size_t i = 1; i < outputs.size(); ++i)
      outputs[i] = Shape{static_cast<int>(i) == layout_.inverse ? unique.items : kUnknownDim};
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const TensorView& x = context.inputs[0];
    auto plan = std::make_unique<UniquePlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->unique, Describe(x));
    const auto size = static_cast<int64_t>(SizeOf(x.type));
    plan->gather = {.outer = plan->unique.outer, .axis = plan->unique.items, .row_bytes = plan->unique.inner * size};
    const auto items = static_cast<size_t>(plan->unique.items);
    plan->keys = plan->AddScratch(plan->unique.key_bytes());
    plan->order = plan->AddScratch(items * sizeof(int64_t));
    plan->heads = plan->AddScratch(items * sizeof(int64_t));
    plan->firsts = plan->AddScratch(items * sizeof(int64_t));
    plan->flags = plan->AddScratch(items);
    plan->counts = plan->AddScratch(plan->unique.select().count_bytes());
    plan->synchronizes = true;
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<UniquePlan>(base);
    const kernels::UniqueScratch scratch{.keys = context.scratch(plan.keys),
                                         .order = context.scratch<int64_t>(plan.order),
                                         .heads = context.scratch<int64_t>(plan.heads),
                                         .firsts = context.scratch<int64_t>(plan.firsts),
                                         .flags = context.scratch<uint8_t>(plan.flags),
                                         .counts = context.scratch<int64_t>(plan.counts)};
    CUDAEP_RETURN_IF_ERROR(kernels::LaunchGroup(plan.unique, context.input(0), scratch, context.stream()));
    int64_t groups = 0;
    CUDAEP_RETURN_IF_ERROR(context.ReadBack(scratch.counts + plan.unique.select().chunks, sizeof(groups), &groups));
    CUDAEP_RETURN_IF_ERROR(kernels::LaunchFirsts(plan.unique, groups, sorted_, scratch, context.stream()));
    return WriteOutputs(plan, scratch, groups, context);
  }

 private:
  Status WriteOutputs(const UniquePlan& plan, const kernels::UniqueScratch& scratch, int64_t groups,
                      const OpContext& context) const {
    CUDAEP_ASSIGN_OR_RETURN(const Shape shape, ValuesShape(context.inputs[0], groups));
    CUDAEP_ASSIGN_OR_RETURN(void* const values, context.Output(0, shape));
    if (values != nullptr) {
      kernels::GatherShape gather = plan.gather;
      gather.count = groups;
      CUDAEP_RETURN_IF_ERROR(
          kernels::LaunchGather(gather, context.input(0), {scratch.firsts, true}, values, context.stream()));
    }
    const auto outputs = static_cast<int>(context.shapes.size());
    void *firsts = nullptr, *sizes = nullptr;
    if (outputs > layout_.firsts) {
      CUDAEP_ASSIGN_OR_RETURN(firsts, context.Output(layout_.firsts, Shape{groups}));
    }
    if (outputs > layout_.counts) {
      CUDAEP_ASSIGN_OR_RETURN(sizes, context.Output(layout_.counts, Shape{groups}));
    }
    if (firsts != nullptr) {
      CUDAEP_RETURN_IF_ERROR(
          device::MemcpyAsync(firsts, scratch.firsts, static_cast<size_t>(groups) * sizeof(int64_t), context.stream()));
    }
    auto* const inverse = outputs > layout_.inverse ? context.output<int64_t>(layout_.inverse) : nullptr;
    return kernels::LaunchUniqueNumbers(plan.unique, groups, sorted_, scratch, inverse, static_cast<int64_t*>(sizes),
                                        context.stream());
  }

  Result<kernels::Unique> Describe(const TensorView& x) const {
    if (!axis_) return kernels::Unique{.type = x.type, .outer = 1, .items = x.elems(), .inner = 1};
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(*axis_, x.rank));
    const auto at = static_cast<size_t>(axis);
    return kernels::Unique{.type = x.type,
                           .outer = ElementCount(x.dims().first(at)),
                           .items = x.dim[axis],
                           .inner = ElementCount(x.dims().subspan(at + 1))};
  }

  Result<Shape> ValuesShape(const TensorView& x, int64_t groups) const {
    if (!axis_) return Shape{groups};
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(*axis_, x.rank));
    Shape shape(x.dims());
    shape[axis] = groups;
    return shape;
  }

  std::optional<int64_t> axis_;
  bool sorted_;
  Layout layout_;
};

KernelRow Row(int since, int until, DataTypeSet types, const char* domain = kOnnxDomain) {
  return {.domain = domain,
          .op = "Unique",
          .since = since,
          .until = until,
          .types = {{"T", types}},
          .open_shapes = true,
          .make = Make<Unique>};
}

const RegisterRows kRows({
    Row(11, 11, kernels::kUniqueTypes - DataTypeSet(DataType::kBFloat16)),
    Row(28, 28, kernels::kUniqueTypes),
    Row(1, 1, kernels::kUniqueTypes - DataTypeSet(DataType::kBFloat16), kMicrosoftDomain),
});

}  // namespace
}  // namespace cudaep::ops
