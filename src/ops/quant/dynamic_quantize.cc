// DynamicQuantizeLinear.
#include "kernels/quant/dynamic_quantize.h"

#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct DynamicQuantizePlan : Plan {
  size_t extremes = 0, unused = 0;  // offsets
};

class DynamicQuantizeLinear final : public Operator {
 public:
  static Result<std::unique_ptr<DynamicQuantizeLinear>> Create(const OpInfo&) {
    return std::make_unique<DynamicQuantizeLinear>();
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    outputs[0].Assign(inputs[0].dims());
    for (size_t i = 1; i < outputs.size(); ++i) outputs[i] = Shape{};
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<DynamicQuantizePlan>();
    plan->extremes = plan->AddScratch(kernels::DynamicQuantizeScratch(context.inputs[0].elems()));
    plan->unused = plan->AddScratch(2 * sizeof(float));
    return PlanPtr(std::move(plan));
  }

  // Scale and zero point that nobody wants go to scratch memory; without codes there is nothing to do but those.
  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const auto& p = PlanAs<DynamicQuantizePlan>(plan);
    const size_t outputs = plan.outputs.size();
    auto* const spare = context.scratch<float>(p.unused);
    float* const scale = outputs > 1 ? context.output<float>(1) : nullptr;
    uint8_t* const zero_point = outputs > 2 ? context.output<uint8_t>(2) : nullptr;
    return kernels::LaunchDynamicQuantize(
        {.x = context.input<float>(0),
         .y = context.output<uint8_t>(0),
         .scale = scale != nullptr ? scale : spare,
         .zero_point = zero_point != nullptr ? zero_point : reinterpret_cast<uint8_t*>(spare + 1),
         .extremes = context.scratch<float>(p.extremes),
         .elems = context.inputs[0].elems()},
        context.stream());
  }
};

const RegisterRows kRows({
    {.op = "DynamicQuantizeLinear",
     .since = 11,
     .until = 11,
     .types = {{"T1", DataType::kFloat}, {"T2", DataType::kUint8}},
     .make = Make<DynamicQuantizeLinear>},
});

}  // namespace
}  // namespace cudaep::ops
