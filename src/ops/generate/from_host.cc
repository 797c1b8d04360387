// FromHost, which compiled regions put where the device reads what shape arithmetic came to: a tensor in host memory,
// on the device.
#include "kernels/generate/literal.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

class FromHost final : public Operator {
 public:
  static Result<std::unique_ptr<FromHost>> Create(const OpInfo&) { return std::make_unique<FromHost>(); }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    outputs[0] = Shape(inputs[0].dims());
    return Status::Ok();
  }

  // One plan serves all values.
  bool MakePlanKey(TensorViews, PlanKey&) const override { return true; }

  Status Enqueue(const Plan&, const OpContext& context) const override {
    const TensorView& values = context.inputs[0];
    return kernels::LaunchLiteral(values.data, values.bytes(), context.output(0), context.stream());
  }
};

const RegisterRows kRows({{.domain = kFusedDomain,
                           .op = "FromHost",
                           .types = {{"T", kAnySizedTypes}},
                           .host_inputs = {0},
                           .make = Make<FromHost>}});

}  // namespace
}  // namespace cudaep::ops
