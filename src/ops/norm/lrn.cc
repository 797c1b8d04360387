// LRN: local response normalisation across channels.
#include "kernels/norm/lrn.h"

#include "ops/image_layout.h"

namespace cudaep::ops {
namespace {

class Lrn : public Operator {
 public:
  static Result<std::unique_ptr<Lrn>> Create(const OpInfo& info) {
    auto op = std::make_unique<Lrn>();
    op->args_ = {.type = info.input_type(0),
                 .size = info.IntOr("size", 0),
                 .alpha = info.FloatOr("alpha", 1e-4f),
                 .beta = info.FloatOr("beta", 0.75f),
                 .bias = info.FloatOr("bias", 1.0f)};
    op->channels_last_ = info.domain() == kNhwcDomain;
    if (op->args_.size < 1) return InvalidArgument("attribute size is ", op->args_.size);
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims x = inputs[0].dims();
    if (x.size() < 2) return InvalidArgument("input ", x, " needs batch and channels");
    outputs[0].Assign(x);
    return Status::Ok();
  }

  Status Enqueue(const Plan&, const OpContext& context) const override {
    const Dims x = context.inputs[0].dims();
    kernels::LrnArgs args = args_;
    args.x = context.input(0);
    args.y = context.output(0);
    if (channels_last_) {  // each pixel is an image of its own
      args.batch = ElementCount(x.first(x.size() - 1));
      args.channels = x.back();
      args.inner = 1;
    } else {
      args.batch = x[0];
      args.channels = x[1];
      args.inner = ElementCount(x.subspan(2));
    }
    return kernels::LaunchLrn(args, context.stream());
  }

 private:
  kernels::LrnArgs args_;
  bool channels_last_ = false;
};

const RegisterRows kRows(InBothLayouts({
    {.op = "LRN", .since = 1, .until = 13, .types = {{"T", kFloatTypes}}, .make = Make<Lrn>},
}));

}  // namespace
}  // namespace cudaep::ops
