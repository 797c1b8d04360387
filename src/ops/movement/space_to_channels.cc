// SpaceToChannels, which compiled regions make before convolutions of few channels: image [N,C,H,W] to
// [N, ceil(H / block), ceil(W / block), channels]. Attributes: "block", and "channels", which holds C * block^2.
#include "kernels/movement/space_to_channels.h"

#include "ops/registry.h"

namespace cudaep::ops {
namespace {

class SpaceToChannels final : public Operator {
 public:
  SpaceToChannels(int64_t block, int64_t channels) : block_(block), channels_(channels) {}

  static Result<std::unique_ptr<SpaceToChannels>> Create(const OpInfo& info) {
    const int64_t block = info.IntOr("block", 1), channels = info.IntOr("channels", 0);
    if (block < 1 || block > 64) return InvalidArgument("block ", block, "; 1 to 64 are offered");
    if (channels < 8 || channels % 8 != 0 || !FitsInt32(channels)) {
      return InvalidArgument("channels ", channels, " must be a multiple of 8");
    }
    return std::make_unique<SpaceToChannels>(block, channels);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims x = inputs[0].dims();
    int64_t used = 0;
    if (x.size() != 4) return InvalidArgument("the image ", x, " must have rank 4");
    if (!CheckedMultiply(x[1], block_ * block_, &used) || used > channels_) {
      return InvalidArgument("blocks of ", block_, 'x', block_, " of the image ", x, " have more than ", channels_,
                             " channels");
    }
    outputs[0] = Shape{x[0], CeilDiv(x[2], block_), CeilDiv(x[3], block_), channels_};
    return CheckedElementCount(outputs[0]).status();
  }

  Status Enqueue(const Plan&, const OpContext& context) const override {
    const Dims x = context.inputs[0].dims();
    return kernels::LaunchSpaceToChannels(
        {.batch = x[0], .channels = x[1], .height = x[2], .width = x[3], .block = block_, .channels_out = channels_},
        context.input(0), context.output(0), context.stream());
  }

 private:
  int64_t block_, channels_;
};

const RegisterRows kRows({{.domain = kFusedDomain,
                           .op = "SpaceToChannels",
                           .types = {{"T", {DataType::kFloat16, DataType::kBFloat16}}},
                           .make = Make<SpaceToChannels>}});

}  // namespace
}  // namespace cudaep::ops
