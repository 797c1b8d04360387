// com.microsoft's SwiGLU, which ONNX Runtime makes of gated layers from 1.32 on: of two tensors, or of the halves of
// one tensor's last dimension.
#include "kernels/elementwise/swiglu.h"

#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

class SwiGlu final : public Operator {
 public:
  explicit SwiGlu(const OpInfo& info) : halves_(!info.has_input(1)) {
    args_.type = info.input_type(0);
    args_.alpha = info.FloatOr("activation_alpha", 1.0f);
    args_.beta = info.FloatOr("activation_beta", 0.0f);
    args_.limit = info.FloatOr("limit", 0.0f);
    args_.rounds_activation = info.IntOr("round_activation", 0) != 0;
  }

  static Result<std::unique_ptr<SwiGlu>> Create(const OpInfo& info) { return std::make_unique<SwiGlu>(info); }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims gate = inputs[0].dims();
    outputs[0].Assign(gate);
    if (halves_) {
      if (gate.empty() || gate.back() % 2 != 0) return InvalidArgument("the last dimension of ", gate, " must be even");
      outputs[0][outputs[0].rank() - 1] /= 2;
    } else if (!SameDims(gate, inputs[1].dims())) {
      return InvalidArgument("gate ", gate, " and up ", inputs[1].dims(), " must have one shape");
    }
    return Status::Ok();
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    kernels::SwiGluArgs args = args_;
    args.gate = context.input(0);
    args.y = context.output(0);
    if (halves_) {
      const Dims y = plan.outputs[0];
      args.columns = y.back(), args.row_step = 2 * y.back(), args.rows = ElementCount(y.first(y.size() - 1));
      args.up = static_cast<const std::byte*>(args.gate) + static_cast<size_t>(args.columns) * SizeOf(args.type);
    } else {
      args.columns = args.row_step = plan.outputs[0].elems(), args.rows = 1;
      args.up = context.input(1);
    }
    return kernels::LaunchSwiGlu(args, context.stream());
  }

 private:
  bool halves_;
  kernels::SwiGluArgs args_;
};

const RegisterRows kRows(
    {{.domain = kMicrosoftDomain, .op = "SwiGLU", .types = {{"T", kernels::kSwiGluTypes}}, .make = Make<SwiGlu>}});

}  // namespace
}  // namespace cudaep::ops
