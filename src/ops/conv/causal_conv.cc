// com.microsoft's CausalConvWithState over sequences: [batch, channels, length], or with channels last [batch, length,
// channels...], of which a slice of channels may be taken. Images (ndim 2 and 3) are not offered: the operator's text
// does not say how their other dimensions are padded.
#include "kernels/conv/causal_conv.h"

#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input : int { kX, kWeight, kBias, kPast };
enum Output : int { kY, kPresent, kUpdate };

class CausalConv final : public Operator {
 public:
  static Result<std::unique_ptr<CausalConv>> Create(const OpInfo& info) {
    auto op = std::make_unique<CausalConv>();
    op->conv_.type = info.input_type(kX);
    op->conv_.dilation = info.IntOr("dilation", 1);
    op->conv_.captured = info.IntOr("state_update_capacity", 0);
    op->conv_.channels_last = info.BoolOr("channels_last", false);
    op->window_ = info.IntOr("state_window", 0);
    op->history_ = info.IntOr("state_length", 0);
    op->channel_offset_ = info.IntOr("input_channel_offset", 0);
    op->channels_ = info.IntOr("input_channels", 0);
    const int64_t ndim = info.IntOr("ndim", 1), state_last = info.IntOr("state_channels_last", -1);
    if (ndim != 1) return NotSupported("ndim ", ndim, "; sequences alone are offered");
    if (op->conv_.dilation < 1) return InvalidArgument("dilation ", op->conv_.dilation, " is below 1");
    if (op->window_ < 0 || op->window_ > 8) return InvalidArgument("state_window ", op->window_, " is not in [0, 8]");
    if (op->conv_.captured < 0 || op->conv_.captured > 8) {
      return InvalidArgument("state_update_capacity ", op->conv_.captured, " is not in [0, 8]");
    }
    if (state_last < -1 || state_last > 1) return InvalidArgument("state_channels_last ", state_last);
    if (op->history_ < 0 || op->channel_offset_ < 0 || op->channels_ < 0) {
      return InvalidArgument("state_length, input_channel_offset and input_channels must not be negative");
    }
    if (!FitsInt32(op->history_) || !FitsInt32(op->channel_offset_) || !FitsInt32(op->channels_)) {
      return NotSupported("state_length, input_channel_offset or input_channels beyond 2^31");
    }
    op->conv_.state_channels_last = state_last == -1 ? op->conv_.channels_last : state_last == 1;
    op->extended_ = state_last != -1 || op->history_ + op->channel_offset_ + op->channels_ + op->conv_.captured != 0;
    if (op->extended_ && (!op->conv_.channels_last || op->window_ != 0)) {
      return InvalidArgument("slices, captures and states of another form need channels_last and no state_window");
    }
    const std::string activation = info.StringOr("activation", "none");
    op->conv_.silu = activation == "silu" || activation == "swish";
    if (!op->conv_.silu && activation != "none") return InvalidArgument("activation '", activation, "'");
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const kernels::CausalConv conv, Problem(inputs));
    outputs[kY].Assign(inputs[kX].dims());
    if (extended_) outputs[kY][2] = conv.channels;
    if (outputs.size() > kPresent) outputs[kPresent] = StateShape(inputs[kX].dims(), conv);
    if (outputs.size() > kUpdate) outputs[kUpdate] = Shape{conv.batch, conv.captured, conv.channels};
    return Status::Ok();
  }

  Status Enqueue(const Plan&, const OpContext& context) const override {
    CUDAEP_ASSIGN_OR_RETURN(const kernels::CausalConv conv, Problem(context.inputs));
    const auto optional = [&](int index) { return InputAt(context.inputs, index).data; };
    const auto output = [&](size_t index) {
      return index < context.shapes.size() ? context.output(static_cast<int>(index)) : nullptr;
    };
    const size_t skipped = static_cast<size_t>(channel_offset_) * SizeOf(conv.type);
    return kernels::LaunchCausalConv(conv,
                                     {.x = context.input<std::byte>(kX) + skipped,
                                      .w = context.input(kWeight),
                                      .bias = optional(kBias),
                                      .past = optional(kPast),
                                      .y = output(kY),
                                      .present = output(kPresent),
                                      .updates = output(kUpdate)},
                                     context.stream());
  }

 private:
  Result<kernels::CausalConv> Problem(TensorViews inputs) const {
    kernels::CausalConv conv = conv_;
    const Dims x = inputs[kX].dims(), w = inputs[kWeight].dims();
    const bool last = conv.channels_last;
    if (last && !extended_ ? x.size() < 3 : x.size() != 3) return InvalidArgument("input ", x, " has other dimensions");
    const int64_t width = last ? ElementCount(x.subspan(2)) : x[1];
    conv.batch = x[0], conv.length = last ? x[1] : x[2];
    conv.channels = channels_ != 0 ? channels_ : width - channel_offset_;
    if (conv.channels < 0 || channel_offset_ + conv.channels > width) {
      return InvalidArgument("channels ", channel_offset_, " to ", channel_offset_ + conv.channels,
                             " are not in input ", x);
    }
    if (w.size() != 3 || w[0] != conv.channels || w[1] != 1 || w[2] == 0) {
      return InvalidArgument("weight ", w, " must be [", conv.channels, ",1,taps]");
    }
    conv.taps = w[2];
    int64_t reach = 0;
    if (!CheckedMultiply(conv.taps - 1, conv.dilation, &reach)) return InvalidArgument("dilation ", conv.dilation);
    conv.history = history_ == 0 ? reach : history_;
    if (conv.history < reach) return InvalidArgument("state_length ", conv.history, " is below the reach of ", reach);
    conv.window = window_ == 0 ? 1 : window_;
    conv.x = last ? CausalStrides{conv.length * width, 1, width} : CausalStrides{width * conv.length, conv.length, 1};
    conv.y = last ? CausalStrides{conv.length * conv.channels, 1, conv.channels} : conv.x;
    const int64_t entry = conv.channels * conv.history;
    conv.state =
        conv.state_channels_last ? CausalStrides{entry, 1, conv.channels} : CausalStrides{entry, conv.history, 1};
    const TensorView bias = InputAt(inputs, kBias), past = InputAt(inputs, kPast);
    if (bias.present() && !SameDims(bias.dims(), Shape{conv.channels})) {
      return InvalidArgument("bias ", bias.dims(), " must be [", conv.channels, "]");
    }
    if (past.present() && !SameDims(past.dims(), StateShape(x, conv))) {
      return InvalidArgument("past_state ", past.dims(), " must be ", StateShape(x, conv).dims());
    }
    return conv;
  }

  Shape StateShape(Dims x, const kernels::CausalConv& conv) const {
    Shape shape;
    if (window_ > 0) shape.Append(window_);
    shape.Append(conv.batch);
    if (!conv.state_channels_last) shape.Append(conv.channels);
    shape.Append(conv.history);
    if (conv.state_channels_last && extended_) shape.Append(conv.channels);
    if (conv.state_channels_last && !extended_) {
      for (int64_t dim : x.subspan(2)) shape.Append(dim);
    }
    return shape;
  }

  using CausalStrides = kernels::CausalStrides;
  kernels::CausalConv conv_;  // what attributes and types say
  int64_t window_ = 0, history_ = 0, channel_offset_ = 0, channels_ = 0;
  bool extended_ = false;
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "CausalConvWithState",
     .types = {{"T", kFloatTypesNoDouble}},
     .make = Make<CausalConv>},
});

}  // namespace
}  // namespace cudaep::ops
