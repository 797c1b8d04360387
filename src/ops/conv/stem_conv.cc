// StemConv, which compiled regions make of a network's first convolution: Conv of an image with its channels first,
// whose result has them last, then "activation" as the fused Conv has it. QuantizedStem, of the same between codes:
//
//   inputs      x of int8, w (whole numbers, as float16), bias [out], scale [out]
//   attributes  those of StemConv, bounds [low, high] for the activation, x_zero, y_scale, y_zero
#include "kernels/conv/stem_conv.h"

#include "device/device_info.h"
#include "kernels/common/tensor_cores.h"
#include "ops/activation_attributes.h"
#include "ops/conv/code_attributes.h"
#include "ops/conv/conv_plan.h"
#include "ops/image_layout.h"
#include "ops/optional_input.h"

namespace cudaep::ops {
namespace {

enum Input : int { kX, kW, kBias, kScale };

struct StemPlan : Plan {
  kernels::StemConv conv;
  int rows_of_block = 0;
  size_t packed = 0;  // scratch, where the caller did not pack
};

int64_t ValueAt(const std::vector<int64_t>& values, size_t i, int64_t fallback) {
  return values.empty() ? fallback : values[i];
}

// What is known without the image, for a kernel that takes it.
Result<kernels::StemConv> StemOf(const OpInfo& info, const ConvAttributes& attributes) {
  const auto weights = info.constant(kW);
  if (!weights) return NotSupported("weights that are no constant");
  const WindowAttributes& window = attributes.window;
  const Shape& w = weights->dims;
  if (w.rank() != 4 || attributes.groups != 1) return NotSupported("weights ", w, " in ", attributes.groups, " groups");
  for (const auto* values : {&window.strides, &window.dilations}) {
    if (!values->empty() && values->size() != 2) return InvalidArgument("attributes need 2 values: ", Dims(*values));
  }
  if (!window.pads.empty() && window.pads.size() != 4) return InvalidArgument("pads ", Dims(window.pads), " are no 4");
  const int64_t row_stride = ValueAt(window.strides, 0, 1), column_stride = ValueAt(window.strides, 1, 1);
  if (column_stride != kernels::kStemStride || row_stride > kernels::kMostStemRowStride) {
    return NotSupported("strides ", row_stride, " and ", column_stride);
  }
  if (ValueAt(window.dilations, 0, 1) != 1 || ValueAt(window.dilations, 1, 1) != 1) return NotSupported("dilations");
  if (window.auto_pad == AutoPad::kSameUpper || window.auto_pad == AutoPad::kSameLower) {
    return NotSupported("padding that depends on the image");
  }
  const bool padded = window.auto_pad == AutoPad::kNotSet;
  const int64_t top = padded ? ValueAt(window.pads, 0, 0) : 0, left = padded ? ValueAt(window.pads, 1, 0) : 0;
  if (w[0] == 0 || w[0] % kernels::kStemPack != 0 || !FitsInt32(w[0])) {
    return NotSupported(w[0], " output channels; multiples of ", kernels::kStemPack, " are offered");
  }
  if (w[1] == 0 || w[1] > kernels::kMostStemChannels || w[1] * w[2] > kernels::kMostStemRows) {
    return NotSupported("windows of ", w[2], " rows and ", w[1], " channels; ", kernels::kMostStemRows, " together of ",
                        kernels::kMostStemChannels, " channels at most are offered");
  }
  if (w[2] == 0 || w[3] == 0 || w[3] + left % 2 > kernels::kStemColumns) {
    return NotSupported("windows of ", w[3], " columns with a padding of ", left);
  }
  CUDAEP_ASSIGN_OR_RETURN(const Epilogue epilogue, ParseActivation(info));
  const bool pools = info.BoolOr("max_pool", false);
  if (pools && !kernels::IsClip(epilogue.activation)) {
    return NotSupported("a pool of activation '", ActivationName(epilogue.activation), "'");
  }
  const auto narrow = [](int64_t value) { return static_cast<int32_t>(value); };
  kernels::StemConv conv{.type = weights->type,
                         .channels = narrow(w[1]),
                         .out_channels = narrow(w[0]),
                         .kernel_h = narrow(w[2]),
                         .kernel_w = narrow(w[3]),
                         .stride_h = narrow(row_stride),
                         .pad_top = narrow(top),
                         .pad_left = narrow(left),
                         .activation = epilogue.activation,
                         .parameters = epilogue.parameters,
                         .pools = pools};
  if (info.input_type(kX) != DataType::kInt8) return conv;
  conv.of_codes = true;
  const int64_t x_zero = info.IntOr("x_zero", 0);
  if (x_zero < -128 || x_zero > 127) return InvalidArgument("x_zero ", x_zero, " is no int8");
  if (conv.activation != Activation::kNone) return InvalidArgument("an activation beside codes, which have bounds");
  conv.x_zero = narrow(x_zero);
  CUDAEP_ASSIGN_OR_RETURN(conv.bounds, ParseBounds(info, "bounds"));
  CUDAEP_ASSIGN_OR_RETURN(conv.y, ParseCoding(info, "y_scale", "y_zero", info.output_type(0)));
  return conv;
}

Result<WindowAttributes> PoolOf(const OpInfo& info) {
  WindowAttributes pool{.kernel = {kernels::kStemPool, kernels::kStemPool}, .strides = {2, 2}};
  pool.pads = info.IntsOr("pool_pads", {});
  pool.ceil_mode = info.BoolOr("pool_ceil_mode", false);
  for (const int64_t pad : pool.pads) {
    if (pad < 0 || pad >= kernels::kStemPool) return InvalidArgument("pool_pads ", Dims(pool.pads), " hold ", pad);
  }
  return pool;
}

class StemConv final : public Operator {
 public:
  StemConv(ConvAttributes attributes, WindowAttributes pool, const kernels::StemConv& conv)
      : attributes_(std::move(attributes)), pool_(std::move(pool)), conv_(conv) {}

  static Result<std::unique_ptr<StemConv>> Create(const OpInfo& info) {
    CUDAEP_ASSIGN_OR_RETURN(ConvAttributes attributes, ParseConv(info));
    CUDAEP_ASSIGN_OR_RETURN(kernels::StemConv conv, StemOf(info, attributes));
    CUDAEP_ASSIGN_OR_RETURN(WindowAttributes pool, PoolOf(info));
    CUDAEP_ASSIGN_OR_RETURN(const auto* device, device::GetDeviceInfo(info.settings().device_ordinal));
    if (!kernels::HasTensorCores(conv.type, *device)) {
      return NotSupported(device->name, " has no tensor cores for ", DataTypeName(conv.type));
    }
    conv.by_warpgroup = kernels::TakesStemWarpgroup(conv, *device);
    return std::make_unique<StemConv>(std::move(attributes), std::move(pool), conv);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const dnn::ConvProblem problem, Place(inputs));
    if (conv_.of_codes) {
      const TensorView scale = InputAt(inputs, kScale);
      if (scale.rank != 1 || scale.dim[0] != problem.out_channels) {
        return InvalidArgument("scale ", scale.dims(), " must have ", problem.out_channels, " elements");
      }
    }
    Shape y = OutputOf(problem);
    if (conv_.pools) {
      CUDAEP_ASSIGN_OR_RETURN(const Window pool, PlacePool(problem));
      y[2] = pool.out[0], y[3] = pool.out[1];
    }
    outputs[0] = InLayout(y, true);
    return CheckedElementCount(outputs[0]).status();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<StemPlan>();
    if (context.outputs[0].elems() == 0) return PlanPtr(std::move(plan));
    CUDAEP_ASSIGN_OR_RETURN(const dnn::ConvProblem p, Place(context.inputs));
    for (int d = 0; d < 2; ++d) {
      const size_t i = static_cast<size_t>(d);
      // Positions in the padded image, and those of blocks that reach beyond it.
      if (!FitsInt32(2 * (p.in[i] + p.pad_begin[i] + p.pad_end[i] + (int64_t{1} << 16)))) {
        return NotSupported("images of ", p.in[0], " x ", p.in[1], " pixels");
      }
    }
    plan->conv = conv_;
    plan->conv.batch = p.batch;
    plan->conv.in_h = static_cast<int32_t>(p.in[0]), plan->conv.in_w = static_cast<int32_t>(p.in[1]);
    plan->conv.out_h = static_cast<int32_t>(p.out[0]), plan->conv.out_w = static_cast<int32_t>(p.out[1]);
    if (conv_.pools) {
      CUDAEP_ASSIGN_OR_RETURN(const Window pool, PlacePool(p));
      plan->conv.pool_top = static_cast<int32_t>(pool.pad_begin[0]);
      plan->conv.pool_left = static_cast<int32_t>(pool.pad_begin[1]);
      plan->conv.pooled_h = static_cast<int32_t>(pool.out[0]), plan->conv.pooled_w = static_cast<int32_t>(pool.out[1]);
    }
    plan->rows_of_block = kernels::StemRowsOfBlock(plan->conv, context.device.multiprocessors);
    plan->cost_flops = ConvFlops(p);
    if (!context.inputs[kW].packed) plan->packed = plan->AddScratch(kernels::PackedStemBytes(conv_));
    return PlanPtr(std::move(plan));
  }

  Result<size_t> PackedBytes(int index, const TensorView&) const override {
    return index == kW ? kernels::PackedStemBytes(conv_) : size_t{0};
  }
  Status Pack(int /*index*/, const TensorView& weight, void* packed, StreamContext& runtime) const override {
    return kernels::LaunchPackStem(conv_, weight.data, packed, runtime.stream());
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    if (plan.outputs[0].elems() == 0) return Status::Ok();
    const auto& p = PlanAs<StemPlan>(plan);
    kernels::StemPointers at{.x = context.input(kX),
                             .packed = context.input(kW),
                             .bias = HasInput(context.inputs, kBias) ? context.input(kBias) : nullptr,
                             .scale = static_cast<const float*>(InputAt(context.inputs, kScale).data),
                             .y = context.output(0)};
    const bool is_packed = context.inputs[kW].packed;
    if (!is_packed) {
      void* const packed = context.scratch(p.packed);
      CUDAEP_RETURN_IF_ERROR(kernels::LaunchPackStem(conv_, at.packed, packed, context.stream()));
      at.packed = packed;
    }
    return kernels::LaunchStemConv(p.conv, p.rows_of_block, is_packed, at, context.stream());
  }

 private:
  Result<dnn::ConvProblem> Place(TensorViews inputs) const {
    const Dims bias = HasInput(inputs, kBias) ? inputs[kBias].dims() : Dims();
    return PlaceConv(attributes_, inputs[kX].dims(), inputs[kW].dims(), HasInput(inputs, kBias) ? &bias : nullptr);
  }

  Result<Window> PlacePool(const dnn::ConvProblem& conv) const {
    return PlaceWindow(pool_, Shape{conv.out[0], conv.out[1]}, pool_.kernel);
  }

  ConvAttributes attributes_;
  WindowAttributes pool_;
  kernels::StemConv conv_;  // without what depends on the image
};

const RegisterRows kRows(
    {{.domain = kFusedDomain, .op = "StemConv", .types = {{"T", kernels::kStemTypes}}, .make = Make<StemConv>},
     {.domain = kFusedDomain,
      .op = "QuantizedStem",
      .types = {{"T1", DataType::kInt8}, {"T2", DataType::kFloat16}, {"T3", kInt8Types}},
      .make = Make<StemConv>}});

}  // namespace
}  // namespace cudaep::ops
