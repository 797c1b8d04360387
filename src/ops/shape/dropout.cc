// Dropout. For inference it is the identity; the mask says that nothing was dropped, and before version 12, where ONNX
// leaves it open, it is the host's zeros.
#include "core/float16.h"
#include "kernels/movement/fill.h"
#include "ops/generate/random_source.h"
#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input { kData, kRatio, kTrainingMode };

struct DropoutPlan : Plan {
  bool trains = false;
};

class Dropout : public Operator {
 public:
  explicit Dropout(const OpInfo& info)
      : source_(info),
        type_(info.input_type(kData)),
        mask_type_(info.has_output(1) ? info.output_type(1) : DataType::kBool),
        mask_value_(info.since_version() < 12 ? 0 : 1) {}

  static Result<std::unique_ptr<Dropout>> Create(const OpInfo& info) {
    if (info.has_input(kTrainingMode)) {
      for (const int index : {kData, kRatio}) {
        if (info.has_input(index) && !kFloatTypes.Contains(info.input_type(index))) {
          return NotSupported("input training_mode with ", DataTypeName(info.input_type(index)));
        }
      }
    }
    return std::make_unique<Dropout>(info);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const TensorView training = InputAt(inputs, kTrainingMode), ratio = InputAt(inputs, kRatio);
    if (training.present() && training.elems() != 1) {
      return InvalidArgument("training_mode ", training.dims(), " must be one element");
    }
    if (Trains(inputs) && ratio.present()) {
      if (ratio.elems() != 1) return InvalidArgument("ratio ", ratio.dims(), " must be one element");
      const double value = RatioOf(inputs);
      if (!(value >= 0 && value < 1)) return InvalidArgument("ratio ", value, " must be in [0, 1)");
    }
    for (Shape& output : outputs) output.Assign(inputs[kData].dims());
    return Status::Ok();
  }

  // A CUDA graph would drop the same elements again.
  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<DropoutPlan>();
    plan->trains = Trains(context.inputs);
    plan->capturable = !plan->trains;
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const bool has_mask = plan.outputs.size() > 1 && context.output(1) != nullptr;
    if (PlanAs<DropoutPlan>(plan).trains) {
      return kernels::LaunchDropout(source_.Next(), RatioOf(context.inputs), type_, context.input(kData),
                                    plan.outputs[0].elems(), context.output(0),
                                    has_mask ? context.output<bool>(1) : nullptr, context.stream());
    }
    if (context.output(0) != context.input(kData)) {
      CUDAEP_RETURN_IF_ERROR(
          device::MemcpyAsync(context.output(0), context.input(kData), context.inputs[0].bytes(), context.stream()));
    }
    if (!has_mask) return Status::Ok();
    const auto bytes = static_cast<int64_t>(StorageBytes(mask_type_, plan.outputs[1].elems()));
    return kernels::LaunchFill(&mask_value_, sizeof(mask_value_), bytes, context.output(1), context.stream());
  }

 private:
  static bool Trains(TensorViews inputs) {
    const TensorView training = InputAt(inputs, kTrainingMode);
    return training.present() && training.host<bool>()[0];
  }

  static double RatioOf(TensorViews inputs) {
    const TensorView ratio = InputAt(inputs, kRatio);
    switch (ratio.type) {
      case DataType::kUndefined:
        return 0.5;
      case DataType::kFloat:
        return ratio.host<float>()[0];
      case DataType::kDouble:
        return ratio.host<double>()[0];
      case DataType::kFloat16:
        return Load(ratio.host<Half>()[0]);
      default:
        return Load(ratio.host<BFloat16>()[0]);
    }
  }

  RandomSource source_;
  DataType type_, mask_type_;
  uint8_t mask_value_;
};

constexpr DataTypeSet kTypes = kFloatTypes | kFloat8Types;

// The host gives an alias its input's buffer whoever else reads it.
KernelRow Row(int since, int until, std::vector<TypeConstraint> types) {
  const bool trains = since >= 12;
  return {.op = "Dropout",
          .since = since,
          .until = until,
          .types = std::move(types),
          .host_inputs = trains ? std::vector<int>{kRatio, kTrainingMode} : std::vector<int>{},
          .aliases = trains ? std::vector<BufferPair>{} : std::vector<BufferPair>{{0, 0}},
          .in_place = trains ? std::vector<BufferPair>{{0, 0}} : std::vector<BufferPair>{},
          .pure = !trains,
          .make = Make<Dropout>};
}

const RegisterRows kRows({
    Row(7, 7, {{"T", kFloatTypes}}),
    Row(10, 10, {{"T", kFloatTypes}, {"T1", DataType::kBool}}),
    Row(12, 22, {{"T", kTypes}, {"T1", kTypes}, {"T2", DataType::kBool}}),
});

}  // namespace
}  // namespace cudaep::ops
