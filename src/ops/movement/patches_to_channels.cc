// PatchesToChannels, which compiled regions make before patch embeddings: image [N,C,H,W] to
// [N, H / rows, W / columns, channels], a patch of "kernel_shape" = [rows, columns] a pixel. "channels" holds
// C * rows * columns, whole packs; the rest is 0.
#include "kernels/movement/patches_to_channels.h"

#include "ops/conv/window.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

constexpr int64_t kPack = 8;

class PatchesToChannels final : public Operator {
 public:
  PatchesToChannels(std::vector<int64_t> patch, int64_t channels) : channels_(channels) {
    window_.kernel = window_.strides = std::move(patch);
  }

  static Result<std::unique_ptr<PatchesToChannels>> Create(const OpInfo& info) {
    std::vector<int64_t> patch = info.IntsOr("kernel_shape", {});
    const int64_t channels = info.IntOr("channels", 0);
    if (patch.size() != 2 || patch[0] < 1 || patch[1] < 1) {
      return InvalidArgument("kernel_shape ", Dims(patch), " must be the rows and columns of a patch");
    }
    if (channels < kPack || channels % kPack != 0 || !FitsInt32(channels)) {
      return InvalidArgument("channels ", channels, " must be a multiple of ", kPack);
    }
    return std::make_unique<PatchesToChannels>(std::move(patch), channels);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims x = inputs[0].dims();
    const int64_t rows = window_.kernel[0], columns = window_.kernel[1];
    int64_t used = 0;
    if (x.size() != 4) return InvalidArgument("the image ", x, " must have rank 4");
    if (!CheckedMultiply(rows, columns, &used) || !CheckedMultiply(used, x[1], &used) || used > channels_) {
      return InvalidArgument("patches of ", rows, 'x', columns, " of the image ", x, " have more than ", channels_,
                             " channels");
    }
    CUDAEP_ASSIGN_OR_RETURN(const Window window, PlaceWindow(window_, x.last(2), window_.kernel));
    outputs[0] = Shape{x[0], window.out[0], window.out[1], channels_};
    return CheckedElementCount(outputs[0]).status();
  }

  Status Enqueue(const Plan&, const OpContext& context) const override {
    const Dims x = context.inputs[0].dims();
    return kernels::LaunchPatchesToChannels({.batch = x[0],
                                             .channels = x[1],
                                             .height = x[2],
                                             .width = x[3],
                                             .patch_h = window_.kernel[0],
                                             .patch_w = window_.kernel[1],
                                             .channels_out = channels_},
                                            context.input(0), context.output(0), context.stream());
  }

 private:
  WindowAttributes window_;
  int64_t channels_;
};

const RegisterRows kRows({{.domain = kFusedDomain,
                           .op = "PatchesToChannels",
                           .types = {{"T", {DataType::kFloat16, DataType::kBFloat16}}},
                           .make = Make<PatchesToChannels>}});

}  // namespace
}  // namespace cudaep::ops
