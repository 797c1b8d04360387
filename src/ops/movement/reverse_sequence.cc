// ReverseSequence: lengths stay on the device.
#include "kernels/movement/gather_nd.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct ReverseSequencePlan : Plan {
  kernels::ReverseSequences shape;
};

class ReverseSequence final : public Operator {
 public:
  explicit ReverseSequence(bool time_first) : time_first_(time_first) {}

  static Result<std::unique_ptr<ReverseSequence>> Create(const OpInfo& info) {
    const int64_t time = info.IntOr("time_axis", 0), batch = info.IntOr("batch_axis", 1);
    if (time + batch != 1 || time * batch != 0) {
      return InvalidArgument("time_axis ", time, " and batch_axis ", batch, " must be 0 and 1");
    }
    return std::make_unique<ReverseSequence>(time == 0);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const TensorView &x = inputs[0], &lengths = inputs[1];
    if (x.rank < 2) return InvalidArgument("input has shape ", x.dims(), ", expected time and batch");
    const int64_t batch = x.dim[time_first_ ? 1 : 0];
    if (lengths.rank != 1 || lengths.dim[0] != batch) {
      return InvalidArgument("sequence_lens has shape ", lengths.dims(), ", expected [", batch, "]");
    }
    outputs[0].Assign(x.dims());
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const TensorView& x = context.inputs[0];
    auto plan = std::make_unique<ReverseSequencePlan>();
    plan->shape = {.first = x.dim[0],
                   .second = x.dim[1],
                   .row_bytes = ElementCount(x.dims().subspan(2)) * static_cast<int64_t>(SizeOf(x.type)),
                   .time_first = time_first_ ? 1 : 0};
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchReverseSequence(PlanAs<ReverseSequencePlan>(plan).shape, context.input(0),
                                          context.input<int64_t>(1), context.output(0), context.stream());
  }

 private:
  bool time_first_;
};

const RegisterRows kRows({
    {.op = "ReverseSequence",
     .since = 10,
     .until = 10,
     .types = {{"T", kFixedSizeTypes - DataTypeSet(DataType::kBFloat16)}},
     .make = Make<ReverseSequence>},
    {.op = "ReverseSequence",
     .since = 28,
     .until = 28,
     .types = {{"T", kFixedSizeTypes}},
     .make = Make<ReverseSequence>},
});

}  // namespace
}  // namespace cudaep::ops
