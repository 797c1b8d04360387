// QuantizeLinear and DequantizeLinear, of ONNX and of com.microsoft.
#include "ops/quant/quant_layout.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum class Direction { kQuantize, kDequantize };

struct LinearPlan : Plan {
  kernels::QuantScales scales;
};

class QuantizeLinear final : public Operator {
 public:
  QuantizeLinear(Direction direction, const kernels::QuantArgs& args, int64_t axis, int64_t block)
      : direction_(direction), args_(args), axis_(axis), block_(block) {}

  static Result<std::unique_ptr<QuantizeLinear>> Create(const OpInfo& info, const KernelRow& row) {
    const auto direction = row.VariantAs<Direction>();
    const int64_t block = info.IntOr("block_size", 0);
    if (block < 0) return InvalidArgument("block_size ", block, " is negative");
    kernels::QuantArgs args{.x_type = info.input_type(0),
                            .scale_type = info.input_type(1),
                            .y_type = info.output_type(0),
                            .saturate = info.BoolOr("saturate", true)};
    if (info.has_input(2) && info.input_type(2) != (direction == Direction::kQuantize ? args.y_type : args.x_type)) {
      return InvalidArgument("a zero point of type ", DataTypeName(info.input_type(2)));
    }
    const DataTypeSet targets =
        direction == Direction::kQuantize ? kernels::kQuantInts | kernels::kQuantFloats : kFloatTypesNoDouble;
    if (!targets.Contains(args.y_type)) return NotSupported("output of type ", DataTypeName(args.y_type));
    if (direction == Direction::kQuantize && row.domain == kOnnxDomain) {
      CUDAEP_ASSIGN_OR_RETURN(args.precision, PrecisionOf(info, args.scale_type));
    }
    return std::make_unique<QuantizeLinear>(direction, args, info.IntOr("axis", 1), block);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_RETURN_IF_ERROR(Layout(inputs).status());
    outputs[0].Assign(inputs[0].dims());
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<LinearPlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->scales, Layout(context.inputs));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    kernels::QuantArgs args = args_;
    args.x = context.input(0);
    args.scale = context.input(1);
    args.zero_point = ZeroPoint(context.inputs).data;
    args.y = context.output(0);
    args.elems = plan.outputs[0].elems();
    args.scales = PlanAs<LinearPlan>(plan).scales;
    return direction_ == Direction::kQuantize ? kernels::LaunchQuantize(args, context.stream())
                                              : kernels::LaunchDequantize(args, context.stream());
  }

 private:
  // The standard divides in the scale's type from version 23 on. Before, as the CPU provider ever, in fp32.
  static Result<DataType> PrecisionOf(const OpInfo& info, DataType scale) {
    const auto named = static_cast<DataType>(info.IntOr("precision", 0));
    if (named == DataType::kUndefined) {
      return info.since_version() >= 23 && kFloat16Types.Contains(scale) ? scale : DataType::kFloat;
    }
    if (!kFloatTypesNoDouble.Contains(named)) return NotSupported("precision ", DataTypeName(named));
    return named;
  }

  static TensorView ZeroPoint(TensorViews inputs) { return inputs.size() > 2 ? inputs[2] : TensorView{}; }

  Result<kernels::QuantScales> Layout(TensorViews inputs) const {
    return QuantLayout(inputs[0].dims(), inputs[1], ZeroPoint(inputs), axis_, block_);
  }

  Direction direction_;
  kernels::QuantArgs args_;  // without pointers and shapes
  int64_t axis_, block_;
};

constexpr DataTypeSet kInts = kernels::kQuantInts - DataTypeSet{DataType::kUint2, DataType::kInt2};
constexpr DataTypeSet kInt32 = DataType::kInt32;
constexpr DataTypeSet kQuantized = kernels::kQuantInts | kernels::kQuantFloats;
constexpr DataTypeSet kContribFloats{DataType::kFloat, DataType::kFloat16};

KernelRow Row(Direction direction, int since, int until, std::vector<TypeConstraint> types,
              const char* domain = kOnnxDomain) {
  return {.domain = domain,
          .op = direction == Direction::kQuantize ? "QuantizeLinear" : "DequantizeLinear",
          .since = since,
          .until = until,
          .types = std::move(types),
          .variant = static_cast<int>(direction),
          .make = Make<QuantizeLinear>};
}

const RegisterRows kRows({
    Row(Direction::kQuantize, 10, 21, {{"T1", kernels::kQuantSources}, {"T2", kInts | kFloat8Types}}),
    Row(Direction::kQuantize, 23, 28,
        {{"T1", kernels::kQuantSources}, {"T2", kernels::kQuantScaleTypes | kInt32}, {"T3", kQuantized}}),
    Row(Direction::kQuantize, 1, 1, {{"T1", kContribFloats}, {"T2", kInts}}, kMicrosoftDomain),
    Row(Direction::kDequantize, 10, 13, {{"T", {DataType::kInt8, DataType::kUint8, DataType::kInt32}}}),
    Row(Direction::kDequantize, 19, 21, {{"T1", kInts | kInt32 | kFloat8Types}, {"T2", kFloatTypesNoDouble}}),
    Row(Direction::kDequantize, 23, 28,
        {{"T1", kQuantized | kInt32}, {"T2", kernels::kQuantScaleTypes}, {"T3", kFloatTypesNoDouble}}),
    Row(Direction::kDequantize, 1, 1, {{"T1", kInts | kInt32}, {"T2", kContribFloats}}, kMicrosoftDomain),
});

}  // namespace
}  // namespace cudaep::ops
