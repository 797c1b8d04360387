// Einsum: any equation over any number of inputs.
#include "kernels/elementwise/binary.h"
#include "kernels/movement/transpose.h"
#include "ops/einsum/einsum_plan.h"
#include "ops/reduce/reduction.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

// Runs the steps of one call.
struct Runner {
  const EinsumPlan& plan;
  const OpContext& context;
  kernels::BinaryKernel multiply;
  const void* a = nullptr;
  const void* b = nullptr;
  void* to = nullptr;

  const void* At(const EinsumBuffer& buffer) const {
    if (buffer.is_input) return context.input(buffer.input);
    return buffer.is_output ? context.output(0) : context.scratch(buffer.scratch);
  }

  Status operator()(const ZeroStep&) const {
    return device::MemsetAsync(to, 0, context.shapes[0].elems() * SizeOf(context.inputs[0].type), context.stream());
  }
  Status operator()(const PermuteStep& step) const {
    return kernels::LaunchTranspose(step.transpose, a, to, context.stream());
  }
  Status operator()(const GatherStep& step) const {
    return kernels::LaunchStridedCopy(step.copy, a, to, context.stream());
  }
  Status operator()(const SumStep& step) const {
    const TensorView input{.data = a};
    const OpContext sum{.inputs = {&input, 1},
                        .outputs = &to,
                        .workspace = context.scratch(plan.library_scratch),
                        .runtime = context.runtime};
    return EnqueueReduction(kernels::ReduceOp::kSum, step.kernel, *step.plan, sum);
  }
  Status operator()(const MultiplyStep& step) const {
    return multiply({.a = a, .b = b, .y = to, .broadcast = &step.broadcast}, context.stream());
  }
  Status operator()(const ProductStep& step) const {
    for (const GemmOffsets& offset : step.launches) {
      CUDAEP_RETURN_IF_ERROR(
          step.product.Enqueue(context.runtime, {.a = static_cast<const std::byte*>(a) + offset.a,
                                                 .b = static_cast<const std::byte*>(b) + offset.b,
                                                 .c = static_cast<std::byte*>(to) + offset.y,
                                                 .workspace = context.scratch(plan.library_scratch)}));
    }
    return Status::Ok();
  }

  Status Run() {
    for (const EinsumStep& step : plan.steps) {
      a = At(step.a), b = At(step.b), to = const_cast<void*>(At(step.to));
      CUDAEP_RETURN_IF_ERROR(std::visit(*this, step.action));
    }
    return Status::Ok();
  }
};

class Einsum final : public Operator {
 public:
  static Result<std::unique_ptr<Einsum>> Create(const OpInfo& info) {
    auto op = std::make_unique<Einsum>();
    if (const auto absent = info.absent_input()) return InvalidArgument("input ", *absent, " is left out");
    const std::optional<std::string> text = info.String("equation");
    if (!text) return InvalidArgument("attribute equation is missing");
    Result<EinsumEquation> equation = ParseEquation(*text);
    if (!equation.ok()) return std::move(equation).status().WithContext("equation '" + *text + "'");
    op->equation_ = std::move(equation).value();
    if (op->equation_.inputs.size() != static_cast<size_t>(info.input_count())) {
      return InvalidArgument("equation '", *text, "' has ", op->equation_.inputs.size(), " terms for ",
                             info.input_count(), " inputs");
    }
    if (Status ranks = CheckRanks(op->equation_); !ranks.ok())
      return std::move(ranks).WithContext("equation '" + *text + "'");
    op->type_ = info.input_type(0);
    op->multiply_ = kernels::FindBinaryKernel("Mul", op->type_);
    if (op->multiply_ == nullptr) return NotSupported("element type ", DataTypeName(op->type_));
    op->options_ = ProductOptions(info.settings());
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const EinsumLabels labels, ResolveEquation(equation_, inputs));
    outputs[0] = labels.OutputShape();
    return CheckedElementCount(outputs[0]).status();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    if (context.outputs[0].elems() == 0) return PlanPtr(std::make_unique<EinsumPlan>());
    CUDAEP_ASSIGN_OR_RETURN(const EinsumLabels labels, ResolveEquation(equation_, context.inputs));
    return PlanEinsum(labels, type_, options_, context);
  }

  LibrarySet libraries() const override { return {.blas = true}; }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return Runner{.plan = PlanAs<EinsumPlan>(plan), .context = context, .multiply = multiply_}.Run();
  }

 private:
  EinsumEquation equation_;
  DataType type_ = DataType::kFloat;
  kernels::BinaryKernel multiply_ = nullptr;
  ProductOptions options_;
};

constexpr DataTypeSet kEinsumTypes =
    kFloatTypes | DataTypeSet{DataType::kInt32, DataType::kInt64, DataType::kUint32, DataType::kUint64};

const RegisterRows kRows({
    {.op = "Einsum",
     .since = 12,
     .until = 12,
     .types = {{"T", kEinsumTypes - DataTypeSet(DataType::kBFloat16)}},
     .make = Make<Einsum>},
    {.op = "Einsum", .since = 28, .until = 28, .types = {{"T", kEinsumTypes}}, .make = Make<Einsum>},
});

}  // namespace
}  // namespace cudaep::ops
