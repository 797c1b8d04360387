// Col2Im: image and block shapes are read on the host.
#include "kernels/conv/col2im.h"

#include "ops/registry.h"
#include "ops/shape/host_ints.h"

namespace cudaep::ops {
namespace {

struct Col2ImPlan : Plan {
  kernels::Col2Im shape;
};

class Col2Im final : public Operator {
 public:
  struct Attributes {
    std::vector<int64_t> strides, pads, dilations;  // empty: as ONNX says
  };
  explicit Col2Im(Attributes attributes) : attributes_(std::move(attributes)) {}

  static Result<std::unique_ptr<Col2Im>> Create(const OpInfo& info) {
    Attributes attributes{info.IntsOr("strides", {}), info.IntsOr("pads", {}), info.IntsOr("dilations", {})};
    for (const auto* values : {&attributes.strides, &attributes.dilations}) {
      for (const int64_t value : *values) {
        if (value < 1) return InvalidArgument("strides and dilations must be positive, not ", value);
      }
    }
    for (const int64_t value : attributes.pads) {
      if (value < 0) return InvalidArgument("pads must not be negative, as ", value);
    }
    return std::make_unique<Col2Im>(std::move(attributes));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const kernels::Col2Im shape, Describe(inputs));
    outputs[0].Resize(2 + shape.rank);
    outputs[0][0] = shape.images;
    outputs[0][1] = shape.channels;
    std::copy_n(shape.image, shape.rank, outputs[0].data() + 2);
    CUDAEP_RETURN_IF_ERROR(CheckedElementCount(outputs[0]).status());
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<Col2ImPlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->shape, Describe(context.inputs));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchCol2Im(PlanAs<Col2ImPlan>(plan).shape, context.input(0), context.output(0), context.stream());
  }

 private:
  Result<kernels::Col2Im> Describe(TensorViews inputs) const {
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<int64_t> image, HostInts(inputs[1], "image_shape"));
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<int64_t> block, HostInts(inputs[2], "block_shape"));
    const size_t rank = image.size();
    const auto& [strides, pads, dilations] = attributes_;
    const auto fits = [&](const std::vector<int64_t>& values, size_t count) {
      return values.empty() || values.size() == count;
    };
    if (rank == 0 || block.size() != rank || !fits(strides, rank) || !fits(dilations, rank) || !fits(pads, 2 * rank)) {
      return InvalidArgument("image_shape ", Dims(image), ", block_shape ", Dims(block),
                             " and the attributes differ in their number of dimensions");
    }
    if (rank > kernels::kMaxCol2ImRank) {
      return NotSupported("an image of ", rank, " dimensions; up to ", kernels::kMaxCol2ImRank, " are offered");
    }
    kernels::Col2Im shape{.type = inputs[0].type, .rank = static_cast<int>(rank)};
    int64_t blocks = 1;
    for (size_t d = 0; d < rank; ++d) {
      shape.image[d] = image[d];
      shape.block[d] = block[d];
      shape.stride[d] = strides.empty() ? 1 : strides[d];
      shape.dilation[d] = dilations.empty() ? 1 : dilations[d];
      shape.pad[d] = pads.empty() ? 0 : pads[d];
      int64_t extent = 0;
      if (block[d] < 1 || image[d] < 0 || !CheckedMultiply(block[d] - 1, shape.dilation[d], &extent)) {
        return InvalidArgument("block_shape ", Dims(block), " of image_shape ", Dims(image));
      }
      const int64_t padded = image[d] + (pads.empty() ? 0 : pads[d] + pads[d + rank]);
      if (padded <= extent) return InvalidArgument("a block of ", extent + 1, " does not fit in ", padded);
      shape.blocks[d] = (padded - extent - 1) / shape.stride[d] + 1;
      blocks *= shape.blocks[d];
    }
    CUDAEP_ASSIGN_OR_RETURN(const int64_t taps, CheckedElementCount(block));
    const TensorView& x = inputs[0];
    if (x.rank != 3 || x.dim[1] % taps != 0 || x.dim[2] != blocks) {
      return InvalidArgument("input has shape ", x.dims(), ", expected [N, a multiple of ", taps, ", ", blocks, "]");
    }
    shape.images = x.dim[0];
    shape.channels = x.dim[1] / taps;
    return shape;
  }

  Attributes attributes_;
};

const RegisterRows kRows({
    {.op = "Col2Im",
     .since = 18,
     .until = 18,
     .types = {{"T", kNumericTypes}},
     .host_inputs = {1, 2},
     .make = Make<Col2Im>},
});

}  // namespace
}  // namespace cudaep::ops
