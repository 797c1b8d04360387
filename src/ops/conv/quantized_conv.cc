// QuantizedConv, which compiled regions make of Conv between DequantizeLinear and QuantizeLinear: codes of int8 in,
// codes or numbers out, in either layout. kernels/conv/quantized_conv.h says what it computes.
//
//   inputs      x, w [out, in, rows, columns], scale [out], bias [out], shift [out], residual (as y)
//   attributes  those of Conv, channels_last, x_zero; bounds [low, high]; y_scale and y_zero where y is codes;
//               with a residual also residual_scale, residual_zero, sum_scale, sum_zero, sum_bounds; tile, which forces
//               that QuantizedConvTile
#include "kernels/conv/quantized_conv.h"

#include <optional>

#include "device/device_info.h"
#include "kernels/movement/transpose.h"
#include "ops/conv/aligned_call.h"
#include "ops/conv/channels_last.h"
#include "ops/conv/code_attributes.h"
#include "ops/conv/conv_plan.h"
#include "ops/image_layout.h"
#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input : int { kX, kW, kScale, kBias, kShift, kResidual };

struct QuantizedConvPlan : Plan {
  kernels::QuantizedConv conv;
  kernels::QuantizedConvChoice choice;
  dnn::ConvProblem problem;
  TurnedTensor x, w, residual, y;
};

class QuantizedConv final : public Operator {
 public:
  QuantizedConv(ConvAttributes attributes, kernels::QuantizedConv conv, bool channels_last,
                std::optional<kernels::QuantizedConvTile> forced)
      : attributes_(std::move(attributes)), conv_(conv), channels_last_(channels_last), forced_(forced) {}

  static Result<std::unique_ptr<QuantizedConv>> Create(const OpInfo& info) {
    CUDAEP_ASSIGN_OR_RETURN(ConvAttributes attributes, ParseConv(info));
    const auto weights = info.constant(kW);
    if (!weights) return NotSupported("weights that are no constant");
    const Shape& w = weights->dims;
    if (w.rank() != 4 || attributes.groups != 1)
      return NotSupported("weights ", w, " in ", attributes.groups, " groups");
    if (w[1] == 0 || w[1] % kernels::kQuantizedConvPack != 0) {
      return NotSupported(w[1], " input channels; multiples of ", kernels::kQuantizedConvPack, " are offered");
    }
    if (info.input_type(kX) != DataType::kInt8 || weights->type != DataType::kInt8) {
      return NotSupported("codes of ", DataTypeName(info.input_type(kX)), " and ", DataTypeName(weights->type));
    }
    CUDAEP_ASSIGN_OR_RETURN(const auto* device, device::GetDeviceInfo(info.settings().device_ordinal));
    if (device->major < 8) return NotSupported(device->name, " has no tensor cores for int8");
    kernels::QuantizedConv conv;
    conv.x_zero = static_cast<int32_t>(info.IntOr("x_zero", 0));
    if (conv.x_zero != 0 && !info.has_input(kShift)) return InvalidArgument("x_zero without shift");
    const DataType type = info.output_type(0);
    conv.to_codes = kInt8Types.Contains(type);
    conv.has_residual = info.has_input(kResidual);
    CUDAEP_ASSIGN_OR_RETURN(conv.bounds, ParseBounds(info, "bounds"));
    CUDAEP_ASSIGN_OR_RETURN(conv.sum_bounds, ParseBounds(info, "sum_bounds"));
    if (conv.has_residual) {
      if (!conv.to_codes) return InvalidArgument("a residual of a result that is no codes");
      CUDAEP_ASSIGN_OR_RETURN(conv.y, ParseCoding(info, "y_scale", "y_zero", DataType::kInt8));
      CUDAEP_ASSIGN_OR_RETURN(conv.residual,
                              ParseCoding(info, "residual_scale", "residual_zero", info.input_type(kResidual)));
      CUDAEP_ASSIGN_OR_RETURN(conv.sum, ParseCoding(info, "sum_scale", "sum_zero", type));
    } else if (conv.to_codes) {
      CUDAEP_ASSIGN_OR_RETURN(conv.y, ParseCoding(info, "y_scale", "y_zero", type));
    }
    std::optional<kernels::QuantizedConvTile> forced;
    if (const int64_t tile = info.IntOr("tile", -1); tile >= kernels::kQuantizedConvTiles) {
      return InvalidArgument("tile ", tile, " of ", kernels::kQuantizedConvTiles);
    } else if (tile >= 0) {
      forced = static_cast<kernels::QuantizedConvTile>(tile);
    }
    return std::make_unique<QuantizedConv>(std::move(attributes), conv, info.BoolOr("channels_last", false), forced);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const dnn::ConvProblem problem, Place(inputs));
    if (!InputAt(inputs, kScale).present()) return InvalidArgument("no scale");
    for (const int vector : {kScale, kBias, kShift}) {
      const TensorView view = InputAt(inputs, vector);
      if (view.present() && (view.rank != 1 || view.dim[0] != problem.out_channels)) {
        return InvalidArgument("input ", vector, " with shape ", view.dims(), " must have ", problem.out_channels,
                               " elements");
      }
    }
    outputs[0] = InLayout(OutputOf(problem), channels_last_);
    const TensorView residual = InputAt(inputs, kResidual);
    if (residual.present() && Shape(residual.dims()) != outputs[0]) {
      return InvalidArgument("residual ", residual.dims(), " is not as the result, ", outputs[0]);
    }
    return CheckedElementCount(outputs[0]).status();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<QuantizedConvPlan>();
    if (context.outputs[0].elems() == 0) return PlanPtr(std::move(plan));
    CUDAEP_ASSIGN_OR_RETURN(const dnn::ConvProblem p, Place(context.inputs));
    const int64_t reach = int64_t{1} << 24;  // of windows and paddings, so that positions fit 32 bits
    for (size_t d = 0; d < 2; ++d) {
      if (p.in[d] > reach || p.pad_begin[d] > reach || p.kernel[d] * p.dilation[d] > reach || p.stride[d] > reach) {
        return NotSupported("windows of ", p.kernel[d], " elements over ", p.in[d]);
      }
    }
    if (!FitsInt32(p.in[0] * p.in[1] * p.in_channels) || !FitsInt32(p.kernel[0] * p.kernel[1] * p.in_channels) ||
        !FitsInt32(p.out[0] * p.out[1]) || !FitsInt32(p.out_channels * p.kernel[0] * p.kernel[1] * p.in_channels)) {
      return NotSupported("images of ", p.in[0], " x ", p.in[1], " pixels and ", p.in_channels, " channels to ",
                          p.out_channels);
    }
    const auto narrow = [](int64_t value) { return static_cast<int32_t>(value); };
    kernels::QuantizedConv& conv = plan->conv;
    conv = conv_;
    conv.batch = p.batch, conv.channels = narrow(p.in_channels), conv.out_channels = narrow(p.out_channels);
    conv.in_h = narrow(p.in[0]), conv.in_w = narrow(p.in[1]);
    conv.out_h = narrow(p.out[0]), conv.out_w = narrow(p.out[1]);
    conv.kernel_h = narrow(p.kernel[0]), conv.kernel_w = narrow(p.kernel[1]);
    conv.stride_h = narrow(p.stride[0]), conv.stride_w = narrow(p.stride[1]);
    conv.pad_top = narrow(p.pad_begin[0]), conv.pad_left = narrow(p.pad_begin[1]);
    conv.dilation_h = narrow(p.dilation[0]), conv.dilation_w = narrow(p.dilation[1]);
    CUDAEP_ASSIGN_OR_RETURN(plan->choice, kernels::ChooseQuantizedConv(conv, context.device, forced_));
    plan->cost_flops = ConvFlops(p);
    plan->problem = p;
    size_t next = 0;
    if (!context.inputs[kW].packed) {
      CUDAEP_ASSIGN_OR_RETURN(plan->w, TurnTensor(p.out_channels, p.in_channels, p.kernel[0] * p.kernel[1], 1, &next));
    }
    if (!channels_last_) {
      const int64_t pixels = p.out[0] * p.out[1];
      CUDAEP_ASSIGN_OR_RETURN(plan->x, TurnTensor(p.batch, p.in_channels, p.in[0] * p.in[1], 1, &next));
      CUDAEP_ASSIGN_OR_RETURN(plan->y, TurnTensor(p.batch, pixels, p.out_channels, conv.to_codes ? 1 : 4, &next));
      if (conv.has_residual) {
        CUDAEP_ASSIGN_OR_RETURN(plan->residual, TurnTensor(p.batch, p.out_channels, pixels, 1, &next));
      }
    }
    plan->workspace_bytes = next;
    return PlanPtr(std::move(plan));
  }

  Result<size_t> PackedBytes(int index, const TensorView& weight) const override {
    const bool moves = weight.rank == 4 && weight.dim[2] * weight.dim[3] != 1;
    return index == kW && moves ? weight.bytes() : size_t{0};
  }
  Status Pack(int /*index*/, const TensorView& w, void* packed, StreamContext& runtime) const override {
    CUDAEP_ASSIGN_OR_RETURN(const auto plan,
                            kernels::PlanTranspose(Shape{w.dim[0], w.dim[1], w.dim[2] * w.dim[3]}, Shape{0, 2, 1}, 1));
    return kernels::LaunchTranspose(plan, w.data, packed, runtime.stream());
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    if (plan.outputs[0].elems() == 0) return Status::Ok();
    const auto& p = PlanAs<QuantizedConvPlan>(plan);
    const auto data = [&](int index) { return InputAt(context.inputs, index).data; };
    auto* const workspace = static_cast<std::byte*>(context.workspace);
    kernels::QuantizedConvPointers at{.scale = static_cast<const float*>(data(kScale)),
                                      .bias = static_cast<const float*>(data(kBias)),
                                      .shift = static_cast<const int32_t*>(data(kShift)),
                                      .y = p.y.moves ? workspace + p.y.offset : context.output(0)};
    dnn::ConvPointers codes;
    CUDAEP_ASSIGN_OR_RETURN(codes.x, PlaceTurned(p.x, data(kX), workspace, context.runtime));
    CUDAEP_ASSIGN_OR_RETURN(codes.w, PlaceTurned(p.w, data(kW), workspace, context.runtime));
    CUDAEP_ASSIGN_OR_RETURN(at.residual, PlaceTurned(p.residual, data(kResidual), workspace, context.runtime));
    const DirectTensors direct{.bias = false, .residual = false, .y = false};
    const auto launch = [&](const dnn::ConvPointers& aligned) {
      at.x = aligned.x, at.w = aligned.w;
      const bool constant = aligned.w == data(kW);  // not a copy, which may still be under way
      return kernels::LaunchQuantizedConv(p.conv, p.choice, constant, at, context.stream());
    };
    CUDAEP_RETURN_IF_ERROR(CallAligned(p.problem, context.runtime, codes, direct, launch));
    if (!p.y.moves) return Status::Ok();
    return kernels::LaunchTranspose(p.y.transpose, at.y, context.output(0), context.stream());
  }

 private:
  Result<dnn::ConvProblem> Place(TensorViews inputs) const {
    const Shape x = ChannelsFirst(inputs[kX].dims(), channels_last_);
    CUDAEP_ASSIGN_OR_RETURN(dnn::ConvProblem problem, PlaceConv(attributes_, x.dims(), inputs[kW].dims(), nullptr));
    problem.types = lib::MixedTypes::Of(DataType::kInt8);
    return problem;
  }

  ConvAttributes attributes_;
  kernels::QuantizedConv conv_;  // without what depends on the image
  bool channels_last_;
  std::optional<kernels::QuantizedConvTile> forced_;
};

const RegisterRows kRows({{.domain = kFusedDomain,
                           .op = "QuantizedConv",
                           .types = {{"T1", DataType::kInt8},
                                     {"T2", {DataType::kInt8, DataType::kUint8, DataType::kFloat}}},
                           .make = Make<QuantizedConv>}});

}  // namespace
}  // namespace cudaep::ops
