#include "core/checked_math.h"
#include "kernels/movement/strided_copy.h"
#include "ops/registry.h"
#include "ops/shape/host_ints.h"

namespace cudaep::ops {
namespace {

struct TilePlan : Plan {
  kernels::StridedCopy copy;
};

class Tile final : public Operator {
 public:
  static Result<std::unique_ptr<Tile>> Create(const OpInfo&) { return std::make_unique<Tile>(); }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims dims = inputs[0].dims();
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<int64_t> repeats, HostInts(inputs[1], "repeats"));
    if (repeats.size() != dims.size()) {
      return InvalidArgument("repeats ", Dims(repeats), " must have one number for each dimension of ", dims);
    }
    CUDAEP_RETURN_IF_ERROR(CheckedElementCount(repeats).status());
    outputs[0].Assign(dims);
    for (int d = 0; d < outputs[0].rank(); ++d) {
      if (!CheckedMultiply(outputs[0][d], repeats[static_cast<size_t>(d)], &outputs[0][d])) {
        return InvalidArgument("dimension ", d, " times ", repeats[static_cast<size_t>(d)], " exceeds 64 bits");
      }
    }
    return Status::Ok();
  }

  // Each output dimension is a pair: the repeats, which do not move in the input, around the input's dimension.
  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const TensorView& input = context.inputs[0];
    const Shape contiguous = ContiguousStrides(input.dims());
    Shape sizes(2 * input.rank, 0), strides(2 * input.rank, 0);
    for (int d = 0; d < input.rank; ++d) {
      sizes[2 * d] = input.dim[d] == 0 ? 0 : context.outputs[0][d] / input.dim[d];
      sizes[2 * d + 1] = input.dim[d];
      strides[2 * d + 1] = contiguous[d];
    }
    auto plan = std::make_unique<TilePlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->copy, kernels::MakeStridedCopy(sizes, strides, 0, SizeOf(input.type)));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchStridedCopy(PlanAs<TilePlan>(plan).copy, context.input(0), context.output(0),
                                      context.stream());
  }
};

const RegisterRows kRows({
    {.op = "Tile",
     .since = 6,
     .until = 13,
     .types = {{"T", kFixedSizeTypes}, {"T1", DataType::kInt64}},
     .host_inputs = {1},
     .make = Make<Tile>},
});

}  // namespace
}  // namespace cudaep::ops
