// Element-wise operators of two tensors with numpy broadcasting: an entry of the table here and a functor in
// kernels/elementwise/binary_*.cu.
#include "kernels/elementwise/binary.h"

#include "ops/elementwise/model_broadcast.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct BinaryPlan : Plan {
  kernels::Broadcast<2> broadcast;
};

// All there is to know of an operator; its place in the table is the variant of its row.
struct Entry {
  const char* op;
  int since, until;
  DataTypeSet types = kNumericTypes;
  bool to_bool = false;           // comparisons and logic
  const char* functor = nullptr;  // where it is not named after the operator
  bool swapped = false;           // the functor's operands are the operator's the other way around
  bool shaped_by_a = false;       // unidirectional broadcasting
};

constexpr DataTypeSet kPReluTypes =
    kFloatTypes | DataTypeSet{DataType::kInt32, DataType::kInt64, DataType::kUint32, DataType::kUint64};

constexpr Entry kEntries[] = {
    {"Add", 7, 14},
    {"And", 7, 7, DataType::kBool, true},
    {"BitShift", 11, 11, kUnsignedIntTypes},
    {"BitShift", 28, 28, kIntTypes},
    {"BitwiseAnd", 18, 18, kIntTypes},
    {"BitwiseOr", 18, 18, kIntTypes},
    {"BitwiseXor", 18, 18, kIntTypes},
    {"Div", 7, 14},
    {"Equal", 7, 19, kNumericTypes | DataTypeSet(DataType::kBool), true},
    {"Greater", 7, 13, kNumericTypes, true, "Less", true},
    {"GreaterOrEqual", 12, 16, kNumericTypes, true, "LessOrEqual", true},
    {"Less", 7, 13, kNumericTypes, true},
    {"LessOrEqual", 12, 16, kNumericTypes, true},
    {"Mod", 10, 28},
    {"Mul", 7, 14},
    {"Or", 7, 7, DataType::kBool, true},
    {"PRelu", 7, 16, kPReluTypes, false, nullptr, false, true},
    {"Sub", 7, 14},
    {"Xor", 7, 7, DataType::kBool, true},
};

// The functor of a node; attributes choose between two for Mod and BitShift.
Result<std::string_view> FunctorOf(const Entry& entry, const OpInfo& info) {
  using namespace std::string_view_literals;
  const std::string_view op = entry.op;
  if (op == "BitShift") {
    const std::string direction = info.StringOr("direction", "");
    if (direction == "LEFT") return "ShiftLeft"sv;
    if (direction == "RIGHT") return "ShiftRight"sv;
    return InvalidArgument("direction '", direction, "'; LEFT and RIGHT are defined");
  }
  if (op == "Mod") {
    if (info.BoolOr("fmod", false)) return "FMod"sv;
    const bool floats = kFloatTypes.Contains(info.input_type(0));
    if (floats && info.since_version() < 28) return InvalidArgument("Mod of floats needs fmod=1 before version 28");
  }
  return entry.functor == nullptr ? op : entry.functor;
}

class Binary : public Operator {
 public:
  Binary(kernels::BinaryKernel kernel, bool swapped, bool shaped_by_a)
      : kernel_(kernel), swapped_(swapped), shaped_by_a_(shaped_by_a) {}

  static Result<std::unique_ptr<Binary>> Create(const OpInfo& info, const KernelRow& row) {
    const Entry& entry = kEntries[row.variant];
    CUDAEP_ASSIGN_OR_RETURN(const std::string_view functor, FunctorOf(entry, info));
    const kernels::BinaryKernel kernel = kernels::FindBinaryKernel(functor, info.input_type(0));
    if (kernel == nullptr) return NotSupported("element type ", DataTypeName(info.input_type(0)));
    CUDAEP_RETURN_IF_ERROR(CheckModelBroadcast<2>(info));
    return std::make_unique<Binary>(kernel, entry.swapped, entry.shaped_by_a);
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
  bool shaped_by_a_;
};

std::vector<KernelRow> Rows() {
  std::vector<KernelRow> rows;
  for (const Entry& entry : kEntries) {
    rows.push_back({.op = entry.op,
                    .since = entry.since,
                    .until = entry.until,
                    .types = {{"T", entry.types}},
                    .in_place = {{0, 0}, {1, 0}},
                    .variant = static_cast<int>(&entry - kEntries),
                    .make = Make<Binary>});
    if (!entry.to_bool) continue;
    rows.back().types.push_back({"T1", DataType::kBool});
    rows.back().in_place = {};
  }
  return rows;
}

const RegisterRows kRows(Rows());

}  // namespace
}  // namespace cudaep::ops
