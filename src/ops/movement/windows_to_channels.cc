// WindowsToChannels, which compiled regions make before convolutions of few channels: image [N,C,H,W] to
// [N,H,windows,channels]. The windows lie along W as a convolution's with the attributes "kernel_shape", "strides",
// "dilations" and "pads" of that one dimension; "channels" holds C * kernel_shape. What is beside the image, and the
// rest, is "fill", which only codes of int8 have other than 0.
#include "kernels/movement/windows_to_channels.h"

#include "ops/conv/window.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

class WindowsToChannels final : public Operator {
 public:
  WindowsToChannels(WindowAttributes window, int64_t channels, int elem_bytes, uint16_t fill)
      : window_(std::move(window)), channels_(channels), elem_bytes_(elem_bytes), fill_(fill) {}

  static Result<std::unique_ptr<WindowsToChannels>> Create(const OpInfo& info) {
    CUDAEP_ASSIGN_OR_RETURN(WindowAttributes window, ParseWindow(info));
    const int64_t channels = info.IntOr("channels", 0);
    if (window.kernel.size() != 1) return InvalidArgument("kernel_shape must have the one dimension of the windows");
    const auto elem_bytes = static_cast<int>(SizeOf(info.input_type(0)));
    const int pack = 16 / elem_bytes;
    if (channels < pack || channels % pack != 0 || !FitsInt32(channels)) {
      return InvalidArgument("channels ", channels, " must be a multiple of ", pack);
    }
    const int64_t fill = info.IntOr("fill", 0);
    if (fill != 0 && (elem_bytes != 1 || fill < -128 || fill > 127)) return InvalidArgument("fill ", fill);
    return std::make_unique<WindowsToChannels>(std::move(window), channels, elem_bytes, static_cast<uint8_t>(fill));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims x = inputs[0].dims();
    int64_t used = 0;
    if (x.size() != 4) return InvalidArgument("the image ", x, " must have rank 4");
    if (!CheckedMultiply(x[1], window_.kernel[0], &used) || used > channels_) {
      return InvalidArgument("windows of ", window_.kernel[0], " elements of the image ", x, " have more than ",
                             channels_, " channels");
    }
    CUDAEP_ASSIGN_OR_RETURN(const Window window, PlaceWindow(window_, x.last(1), window_.kernel));
    outputs[0] = Shape{x[0], x[2], window.out[0], channels_};
    return CheckedElementCount(outputs[0]).status();
  }

  Status Enqueue(const Plan&, const OpContext& context) const override {
    const Dims x = context.inputs[0].dims();
    CUDAEP_ASSIGN_OR_RETURN(const Window window, PlaceWindow(window_, x.last(1), window_.kernel));
    return kernels::LaunchWindowsToChannels({.elem_bytes = elem_bytes_,
                                             .fill = fill_,
                                             .batch = x[0],
                                             .channels = x[1],
                                             .height = x[2],
                                             .width = x[3],
                                             .windows = window.out[0],
                                             .taps = window.kernel[0],
                                             .stride = window.stride[0],
                                             .dilation = window.dilation[0],
                                             .pad = window.pad_begin[0],
                                             .channels_out = channels_},
                                            context.input(0), context.output(0), context.stream());
  }

 private:
  WindowAttributes window_;
  int64_t channels_;
  int elem_bytes_;
  uint16_t fill_;
};

const RegisterRows kRows({{.domain = kFusedDomain,
                           .op = "WindowsToChannels",
                           .types = {{"T", {DataType::kFloat16, DataType::kBFloat16, DataType::kInt8}}},
                           .make = Make<WindowsToChannels>}});

}  // namespace
}  // namespace cudaep::ops
