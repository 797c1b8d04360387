// Cast and CastLike. Attributes about 8-bit floats (saturate, round_mode) have no effect on the types offered here.
#include "kernels/elementwise/cast.h"

#include "ops/registry.h"

namespace cudaep::ops {
namespace {

class Cast : public Operator {
 public:
  Cast(kernels::CastKernel kernel, DataType to) : kernel_(kernel), to_(to) {}

  static Result<std::unique_ptr<Cast>> Create(const OpInfo& info) {
    const DataType from = info.input_type(0);
    const DataType to = info.op_type() == "CastLike" ? info.input_type(1) : static_cast<DataType>(info.IntOr("to", 0));
    const kernels::CastKernel kernel = kernels::FindCastKernel(from);
    if (kernel == nullptr || !kernels::kCastTypes.Contains(to)) {
      return NotSupported("no cast from ", DataTypeName(from), " to ", DataTypeName(to));
    }
    return std::make_unique<Cast>(kernel, to);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    outputs[0] = Shape(inputs[0].dims());
    return Status::Ok();
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernel_({.x = context.input(0), .y = context.output(0), .to = to_, .elems = plan.outputs[0].elems()},
                   context.stream());
  }

 private:
  kernels::CastKernel kernel_;
  DataType to_;
};

KernelRow Row(const char* op, int since, int until) {
  return {.op = op,
          .since = since,
          .until = until,
          .types = {{"T1", kernels::kCastTypes}, {"T2", kernels::kCastTypes}},
          .make = Make<Cast>};
}

const RegisterRows kRows({
    Row("Cast", 6, 25),
    Row("CastLike", 15, 25),
});

}  // namespace
}  // namespace cudaep::ops
