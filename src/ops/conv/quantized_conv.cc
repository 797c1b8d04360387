// QuantizedConv, which compiled regions make of Conv between DequantizeLinear and QuantizeLinear: codes of int8 in,
// codes or numbers out, in either layout. kernels/conv/quantized_conv.h says what it computes.
//
//   inputs      x, w [out, in, rows, columns], scale [out], bias [out], shift [out], residual (as y)
//   attributes  those of Conv, channels_last, x_zero; bounds [low, high]; y_scale and y_zero where y is codes;
//               with a residual also residual_scale, residual_zero, sum_scale, sum_zero, sum_bounds
#include "kernels/conv/quantized_conv.h"

#include "kernels/movement/transpose.h"
#include "kernels/pack.h"
#include "ops/call_memory.h"
#include "ops/conv/conv_plan.h"
#include "ops/image_layout.h"
#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input : int { kX, kW, kScale, kBias, kShift, kResidual };

constexpr DataTypeSet kCodes{DataType::kInt8, DataType::kUint8};

// A tensor's copy with its channels in the other place, in scratch memory.
struct Turned {
  std::optional<kernels::TransposePlan> transpose;  // none: the tensor is used where it lies
  size_t offset = 0;
};

struct QuantizedConvPlan : Plan {
  kernels::QuantizedConv conv;
  kernels::QuantizedConvTile tile = kernels::QuantizedConvTile::k64x64;
  Turned x, w, residual, y;
  size_t x_bytes = 0;
};

int32_t LowestOf(DataType type) { return type == DataType::kInt8 ? -128 : 0; }

Result<kernels::Bounds> BoundsOf(const OpInfo& info, const char* name) {
  const auto given = info.Floats(name);
  if (!given) return kernels::Bounds{};
  if (given->size() != 2) return InvalidArgument(name, " need 2 values, not ", given->size());
  return kernels::Bounds{(*given)[0], (*given)[1]};
}

Result<kernels::Coding> CodingOf(const OpInfo& info, const char* scale, const char* zero, DataType type) {
  kernels::Coding coding{.scale = info.FloatOr(scale, 0), .lowest = LowestOf(type)};
  if (!(coding.scale > 0)) return InvalidArgument(scale, " must be a positive number");
  const int64_t point = info.IntOr(zero, 0);
  if (point < coding.lowest || point > coding.lowest + 255) {
    return InvalidArgument(zero, " ", point, " is no ", DataTypeName(type));
  }
  coding.zero = static_cast<int32_t>(point);
  return coding;
}

class QuantizedConv final : public Operator {
 public:
  QuantizedConv(ConvAttributes attributes, kernels::QuantizedConv conv, bool channels_last)
      : attributes_(std::move(attributes)), conv_(conv), channels_last_(channels_last) {}

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
    conv.to_codes = kCodes.Contains(type);
    conv.has_residual = info.has_input(kResidual);
    CUDAEP_ASSIGN_OR_RETURN(conv.bounds, BoundsOf(info, "bounds"));
    CUDAEP_ASSIGN_OR_RETURN(conv.sum_bounds, BoundsOf(info, "sum_bounds"));
    if (conv.has_residual) {
      if (!conv.to_codes) return InvalidArgument("a residual of a result that is no codes");
      CUDAEP_ASSIGN_OR_RETURN(conv.y, CodingOf(info, "y_scale", "y_zero", DataType::kInt8));
      CUDAEP_ASSIGN_OR_RETURN(conv.residual,
                              CodingOf(info, "residual_scale", "residual_zero", info.input_type(kResidual)));
      CUDAEP_ASSIGN_OR_RETURN(conv.sum, CodingOf(info, "sum_scale", "sum_zero", type));
    } else if (conv.to_codes) {
      CUDAEP_ASSIGN_OR_RETURN(conv.y, CodingOf(info, "y_scale", "y_zero", type));
    }
    return std::make_unique<QuantizedConv>(std::move(attributes), conv, info.BoolOr("channels_last", false));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const dnn::ConvProblem problem, Place(inputs));
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
        !FitsInt32(p.out[0] * p.out[1] * p.batch / 64) || !FitsInt32(p.out_channels)) {
      return NotSupported("images of ", p.in[0], " x ", p.in[1], " pixels and ", p.in_channels, " channels");
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
    plan->tile = kernels::QuantizedConvTileOf(conv, context.device.multiprocessors);
    plan->cost_flops = ConvFlops(p);
    plan->x_bytes = context.inputs[kX].bytes();
    if (!context.inputs[kW].packed) {
      CUDAEP_RETURN_IF_ERROR(Turn(p.out_channels, p.in_channels, p.kernel[0] * p.kernel[1], 1, *plan, plan->w));
    }
    if (channels_last_) return PlanPtr(std::move(plan));
    const int64_t pixels = p.out[0] * p.out[1];
    CUDAEP_RETURN_IF_ERROR(Turn(p.batch, p.in_channels, p.in[0] * p.in[1], 1, *plan, plan->x));
    CUDAEP_RETURN_IF_ERROR(Turn(p.batch, pixels, p.out_channels, conv.to_codes ? 1 : 4, *plan, plan->y));
    if (conv.has_residual) {
      CUDAEP_RETURN_IF_ERROR(Turn(p.batch, p.out_channels, pixels, 1, *plan, plan->residual));
    }
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
    kernels::QuantizedConvPointers at{.scale = static_cast<const float*>(data(kScale)),
                                      .bias = static_cast<const float*>(data(kBias)),
                                      .shift = static_cast<const int32_t*>(data(kShift)),
                                      .y = p.y.transpose ? context.scratch(p.y.offset) : context.output(0)};
    CUDAEP_ASSIGN_OR_RETURN(at.x, Place(p.x, data(kX), context));
    CUDAEP_ASSIGN_OR_RETURN(at.w, Place(p.w, data(kW), context));
    CUDAEP_ASSIGN_OR_RETURN(at.residual, Place(p.residual, data(kResidual), context));
    CUDAEP_RETURN_IF_ERROR(Launch(p, at, context));
    if (!p.y.transpose) return Status::Ok();
    return kernels::LaunchTranspose(*p.y.transpose, at.y, context.output(0), context.stream());
  }

 private:
  static constexpr size_t kAlignment = 16;  // of codes and weights

  Result<dnn::ConvProblem> Place(TensorViews inputs) const {
    const Shape x = ChannelsFirst(inputs[kX].dims(), channels_last_);
    return PlaceConv(attributes_, x.dims(), inputs[kW].dims(), nullptr);
  }

  // [outer, rows, columns] to [outer, columns, rows].
  static Status Turn(int64_t outer, int64_t rows, int64_t columns, size_t elem_bytes, QuantizedConvPlan& plan,
                     Turned& turned) {
    if (rows == 1 || columns == 1) return Status::Ok();
    CUDAEP_ASSIGN_OR_RETURN(turned.transpose,
                            kernels::PlanTranspose(Shape{outer, rows, columns}, Shape{0, 2, 1}, elem_bytes));
    turned.offset = plan.AddScratch(static_cast<size_t>(outer * rows * columns) * elem_bytes);
    return Status::Ok();
  }
  static Result<const void*> Place(const Turned& turned, const void* tensor, const OpContext& context) {
    if (!turned.transpose) return tensor;
    void* const copy = context.scratch(turned.offset);
    CUDAEP_RETURN_IF_ERROR(kernels::LaunchTranspose(*turned.transpose, tensor, copy, context.stream()));
    return copy;
  }

  // What does not lie at a multiple of a pack is copied.
  static Status Launch(const QuantizedConvPlan& p, kernels::QuantizedConvPointers at, const OpContext& context) {
    const bool x_moves = !kernels::IsAligned(at.x, kAlignment), w_moves = !kernels::IsAligned(at.w, kAlignment);
    const auto launch = [&] {
      return kernels::LaunchQuantizedConv(p.conv, p.tile, context.inputs[kW].packed && !w_moves, at, context.stream());
    };
    if (!x_moves && !w_moves) return launch();
    CallMemory memory(context.runtime);
    const size_t w_bytes = context.inputs[kW].bytes();
    const size_t x_copy = memory.Add(x_moves ? p.x_bytes : 0), w_copy = memory.Add(w_moves ? w_bytes : 0);
    CUDAEP_RETURN_IF_ERROR(memory.Take());
    const auto copy = [&](const void** tensor, size_t to, size_t bytes) {
      const Status status = device::MemcpyAsync(memory.at(to), *tensor, bytes, context.stream());
      *tensor = memory.at(to);
      return status;
    };
    if (x_moves) CUDAEP_RETURN_IF_ERROR(copy(&at.x, x_copy, p.x_bytes));
    if (w_moves) CUDAEP_RETURN_IF_ERROR(copy(&at.w, w_copy, w_bytes));
    return launch();
  }

  ConvAttributes attributes_;
  kernels::QuantizedConv conv_;  // without what depends on the image
  bool channels_last_;
};

const RegisterRows kRows({{.domain = kFusedDomain,
                           .op = "QuantizedConv",
                           .types = {{"T1", DataType::kInt8},
                                     {"T2", {DataType::kInt8, DataType::kUint8, DataType::kFloat}}},
                           .make = Make<QuantizedConv>}});

}  // namespace
}  // namespace cudaep::ops
