// Element-wise operators of two tensors with numpy broadcasting: a row here and a functor in
// kernels/elementwise/binary_*.cu.
#include "kernels/elementwise/binary.h"

#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct BinaryPlan : Plan {
  kernels::Broadcast<2> broadcast;
};

// How an operator is computed: with which functor, and whether its operands change places.
struct Recipe {
  std::string_view functor;
  bool swapped = false;
};

Result<Recipe> RecipeOf(const OpInfo& info) {
  const std::string_view op = info.op_type();
  if (op == "Greater") return Recipe{"Less", true};
  if (op == "GreaterOrEqual") return Recipe{"LessOrEqual", true};
  if (op == "BitShift") {
    const std::string direction = info.StringOr("direction", "");
    if (direction == "LEFT") return Recipe{"ShiftLeft"};
    if (direction == "RIGHT") return Recipe{"ShiftRight"};
    return InvalidArgument("direction '", direction, "'; LEFT and RIGHT are defined");
  }
  if (op != "Mod") return Recipe{op};
  if (info.BoolOr("fmod", false)) return Recipe{"FMod"};
  if (kFloatTypes.Contains(info.input_type(0))) return InvalidArgument("Mod of floats needs fmod=1");
  return Recipe{"Mod"};
}

class Binary : public Operator {
 public:
  Binary(kernels::BinaryKernel kernel, bool swapped, bool shaped_by_a)
      : kernel_(kernel), swapped_(swapped), shaped_by_a_(shaped_by_a) {}

  static Result<std::unique_ptr<Binary>> Create(const OpInfo& info) {
    CUDAEP_ASSIGN_OR_RETURN(const Recipe recipe, RecipeOf(info));
    const kernels::BinaryKernel kernel = kernels::FindBinaryKernel(recipe.functor, info.input_type(0));
    if (kernel == nullptr) return NotSupported("element type ", DataTypeName(info.input_type(0)));
    return std::make_unique<Binary>(kernel, recipe.swapped, info.op_type() == "PRelu");
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(outputs[0], BroadcastShapes(inputs[0].dims(), inputs[1].dims()));
    if (shaped_by_a_ && !SameDims(outputs[0], inputs[0].dims())) {
      return InvalidArgument("shape ", inputs[1].dims(), " does not broadcast to ", inputs[0].dims());
    }
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<BinaryPlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->broadcast,
                            kernels::MakeBroadcast<2>(context.outputs[0], {context.inputs[swapped_ ? 1 : 0].dims(),
                                                                           context.inputs[swapped_ ? 0 : 1].dims()}));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernel_({.a = context.input(swapped_ ? 1 : 0),
                    .b = context.input(swapped_ ? 0 : 1),
                    .y = context.output(0),
                    .broadcast = &PlanAs<BinaryPlan>(plan).broadcast},
                   context.stream());
  }

 private:
  kernels::BinaryKernel kernel_;
  bool swapped_;
  bool shaped_by_a_;  // unidirectional broadcasting
};

KernelRow Arithmetic(const char* op, int since, int until, DataTypeSet types = kNumericTypes) {
  return {.op = op,
          .since = since,
          .until = until,
          .types = {{"T", types}},
          .in_place = {{0, 0}, {1, 0}},
          .make = Make<Binary>};
}

// Comparisons and logic: bool out.
KernelRow Question(const char* op, int since, int until, DataTypeSet types) {
  return {
      .op = op, .since = since, .until = until, .types = {{"T", types}, {"T1", DataType::kBool}}, .make = Make<Binary>};
}

constexpr DataTypeSet kPReluTypes =
    kFloatTypes | DataTypeSet{DataType::kInt32, DataType::kInt64, DataType::kUint32, DataType::kUint64};

const RegisterRows kRows({
    Arithmetic("Add", 7, 14),
    Arithmetic("BitShift", 11, 11, kUnsignedIntTypes),
    Arithmetic("BitwiseAnd", 18, 18, kIntTypes),
    Arithmetic("BitwiseOr", 18, 18, kIntTypes),
    Arithmetic("BitwiseXor", 18, 18, kIntTypes),
    Arithmetic("Div", 7, 14),
    Arithmetic("Mod", 10, 13),
    Arithmetic("Mul", 7, 14),
    Arithmetic("PRelu", 7, 16, kPReluTypes),
    Arithmetic("Sub", 7, 14),
    Question("And", 7, 7, DataType::kBool),
    Question("Equal", 7, 19, kNumericTypes | DataTypeSet(DataType::kBool)),
    Question("Greater", 7, 13, kNumericTypes),
    Question("GreaterOrEqual", 12, 16, kNumericTypes),
    Question("Less", 7, 13, kNumericTypes),
    Question("LessOrEqual", 12, 16, kNumericTypes),
    Question("Or", 7, 7, DataType::kBool),
    Question("Xor", 7, 7, DataType::kBool),
});

}  // namespace
}  // namespace cudaep::ops
