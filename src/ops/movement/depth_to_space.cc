// DepthToSpace and SpaceToDepth: transposes of the tensor seen with blocks as dimensions of their own.
#include "core/checked_math.h"
#include "kernels/movement/transpose.h"
#include "ops/image_layout.h"

namespace cudaep::ops {
namespace {

struct BlocksPlan : Plan {
  kernels::TransposePlan transpose;
};

class Blocks final : public Operator {
 public:
  struct Attributes {
    int64_t size = 1;
    bool to_space = false;
    bool depth_first = false;  // channels of a block are [block, depth] in the channel dimension, not [depth, block]
    bool nhwc = false;
  };
  explicit Blocks(Attributes attributes) : attributes_(attributes) {}

  static Result<std::unique_ptr<Blocks>> Create(const OpInfo& info) {
    const int64_t size = info.IntOr("blocksize", 0);
    if (size <= 0 || !FitsInt32(size)) return InvalidArgument("blocksize ", size, " is not a positive number");
    const std::string mode = info.StringOr("mode", "DCR");
    if (mode != "DCR" && mode != "CRD") return InvalidArgument("mode ", mode, " is neither DCR nor CRD");
    return std::make_unique<Blocks>(Attributes{.size = size,
                                               .to_space = info.op_type() == "DepthToSpace",
                                               .depth_first = mode == "DCR",
                                               .nhwc = info.domain() == kNhwcDomain});
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims dims = inputs[0].dims();
    if (dims.size() != 4) return InvalidArgument("the input must have 4 dimensions, its shape is ", dims);
    const int64_t size = attributes_.size;
    const int channel = attributes_.nhwc ? 3 : 1, row = attributes_.nhwc ? 1 : 2;
    outputs[0].Assign(dims);
    Shape& out = outputs[0];
    const bool divides =
        attributes_.to_space ? out[channel] % (size * size) == 0 : out[row] % size == 0 && out[row + 1] % size == 0;
    if (!divides) return InvalidArgument("shape ", dims, " does not divide into blocks of ", size);
    bool fits = true;
    if (attributes_.to_space) {
      out[channel] /= size * size;
      fits = CheckedMultiply(out[row], size, &out[row]) && CheckedMultiply(out[row + 1], size, &out[row + 1]);
    } else {
      out[row] /= size;
      out[row + 1] /= size;
      fits = CheckedMultiply(out[channel], size * size, &out[channel]);
    }
    return fits ? Status::Ok() : InvalidArgument("the output of shape ", dims, " exceeds 64 bits");
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const TensorView& input = context.inputs[0];
    // The side with the blocks still inside the channels has the smaller picture and the deeper pixels.
    const Dims deep = attributes_.to_space ? input.dims() : context.outputs[0].dims();
    const Dims flat = attributes_.to_space ? context.outputs[0].dims() : input.dims();
    const int64_t size = attributes_.size;
    const bool nhwc = attributes_.nhwc;
    const int64_t n = deep[0], h = deep[nhwc ? 1 : 2], w = deep[nhwc ? 2 : 3], c = flat[nhwc ? 3 : 1];
    // Names of the six dimensions: batch, block row, block column, channel, height, width.
    enum { kN, kY, kX, kC, kH, kW };
    const int64_t sizes[] = {n, size, size, c, h, w};
    using Order = std::array<int, 6>;
    const Order deep_order =
        nhwc ? (attributes_.depth_first ? Order{kN, kH, kW, kY, kX, kC} : Order{kN, kH, kW, kC, kY, kX})
             : (attributes_.depth_first ? Order{kN, kY, kX, kC, kH, kW} : Order{kN, kC, kY, kX, kH, kW});
    const Order flat_order = nhwc ? Order{kN, kH, kY, kW, kX, kC} : Order{kN, kC, kH, kY, kW, kX};
    const Order& from = attributes_.to_space ? deep_order : flat_order;
    const Order& to = attributes_.to_space ? flat_order : deep_order;
    int64_t dims[6], perm[6];
    for (size_t i = 0; i < 6; ++i) {
      dims[i] = sizes[from[i]];
      perm[i] = std::find(from.begin(), from.end(), to[i]) - from.begin();
    }
    auto plan = std::make_unique<BlocksPlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->transpose, kernels::PlanTranspose(dims, perm, SizeOf(input.type)));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchTranspose(PlanAs<BlocksPlan>(plan).transpose, context.input(0), context.output(0),
                                    context.stream());
  }

 private:
  Attributes attributes_;
};

KernelRow Row(const char* op) {
  return {.op = op, .since = 1, .until = 28, .types = {{"T", kFixedSizeTypes}}, .make = Make<Blocks>};
}

const RegisterRows kRows(InBothLayouts({Row("DepthToSpace"), Row("SpaceToDepth")}));

}  // namespace
}  // namespace cudaep::ops
