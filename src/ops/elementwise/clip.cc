// Clip with bounds as optional inputs (version 11 on); they stay on the device. Older versions are in unary.cc.
#include "kernels/elementwise/clip.h"

#include "ops/registry.h"

namespace cudaep::ops {
namespace {

class Clip : public Operator {
 public:
  Clip(kernels::ClipKernel kernel, bool has_low, bool has_high)
      : kernel_(kernel), has_low_(has_low), has_high_(has_high) {}

  static Result<std::unique_ptr<Clip>> Create(const OpInfo& info) {
    const kernels::ClipKernel kernel = kernels::FindClipKernel(info.input_type(0));
    if (kernel == nullptr) return NotSupported("element type ", DataTypeName(info.input_type(0)));
    return std::make_unique<Clip>(kernel, info.has_input(1), info.has_input(2));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    for (const TensorView& bound : inputs.subspan(1)) {
      if (bound.present() && bound.elems() != 1) {
        return InvalidArgument("min and max must hold one element, not shape ", bound.dims());
      }
    }
    outputs[0] = Shape(inputs[0].dims());
    return Status::Ok();
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernel_({.x = context.input(0),
                    .low = has_low_ ? context.input(1) : nullptr,
                    .high = has_high_ ? context.input(2) : nullptr,
                    .y = context.output(0),
                    .elems = plan.outputs[0].elems()},
                   context.stream());
  }

 private:
  kernels::ClipKernel kernel_;
  bool has_low_, has_high_;
};

const RegisterRows kRows({
    {.op = "Clip", .since = 11, .until = 13, .types = {{"T", kNumericTypes}}, .in_place = {{0, 0}}, .make = Make<Clip>},
});

}  // namespace
}  // namespace cudaep::ops
