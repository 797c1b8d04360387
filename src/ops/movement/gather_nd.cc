// GatherND.
#include "kernels/movement/gather_nd.h"

#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct GatherNDPlan : Plan {
  kernels::GatherNd gather;
};

class GatherND final : public Operator {
 public:
  explicit GatherND(int64_t batch_dims) : batch_dims_(batch_dims) {}

  static Result<std::unique_ptr<GatherND>> Create(const OpInfo& info) {
    const int64_t batch_dims = info.IntOr("batch_dims", 0);
    if (batch_dims < 0) return InvalidArgument("batch_dims is ", batch_dims);
    return std::make_unique<GatherND>(batch_dims);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims data = inputs[0].dims(), indices = inputs[1].dims();
    CUDAEP_ASSIGN_OR_RETURN(const size_t used, UsedDims(data, indices));
    outputs[0].Resize(static_cast<int>(indices.size() - 1 + data.size() - used));
    int64_t* const dim = std::copy(indices.begin(), indices.end() - 1, outputs[0].data());
    std::copy(data.begin() + static_cast<std::ptrdiff_t>(used), data.end(), dim);
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const TensorView &data = context.inputs[0], &indices = context.inputs[1];
    const Dims dims = data.dims();
    CUDAEP_ASSIGN_OR_RETURN(const size_t used, UsedDims(dims, indices.dims()));
    const auto batch_dims = static_cast<size_t>(batch_dims_);
    const Dims named = dims.subspan(batch_dims, used - batch_dims);
    auto plan = std::make_unique<GatherNDPlan>();
    plan->gather = {.batches = ElementCount(dims.first(batch_dims)),
                    .batch_rows = ElementCount(named),
                    .count = ElementCount(indices.dims().subspan(batch_dims, indices.dims().size() - 1 - batch_dims)),
                    .row_bytes = ElementCount(dims.subspan(used)) * static_cast<int64_t>(SizeOf(data.type))};
    CUDAEP_ASSIGN_OR_RETURN(plan->gather.tuples, kernels::MakeIndexTuples(named));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    kernels::GatherNd gather = PlanAs<GatherNDPlan>(plan).gather;
    gather.tuples.indices = {context.input(1), context.inputs[1].type == DataType::kInt64};
    return kernels::LaunchGatherNd(gather, context.input(0), context.output(0), context.stream());
  }

 private:
  // How many dimensions of the data the batch and the tuples name.
  Result<size_t> UsedDims(Dims data, Dims indices) const {
    const auto batch_dims = static_cast<size_t>(batch_dims_);
    bool fits = batch_dims < indices.size() && batch_dims <= data.size();
    fits = fits && indices.back() >= 0 && batch_dims + static_cast<size_t>(indices.back()) <= data.size();
    for (size_t d = 0; fits && d < batch_dims; ++d) fits = data[d] == indices[d];
    if (!fits) {
      return InvalidArgument("indices of shape ", indices, " do not fit data of shape ", data, " with ", batch_dims_,
                             " batch dimensions");
    }
    return batch_dims + static_cast<size_t>(indices.back());
  }

  int64_t batch_dims_;
};

const RegisterRows kRows({
    {.op = "GatherND", .since = 11, .until = 13, .types = {{"T", kFixedSizeTypes}}, .make = Make<GatherND>},
    {.domain = kMicrosoftDomain,
     .op = "GatherND",
     .since = 1,
     .until = 1,
     .types = {{"T", kFixedSizeTypes - DataTypeSet(DataType::kBFloat16)}, {"Tind", kIndexTypes}},
     .make = Make<GatherND>},
});

}  // namespace
}  // namespace cudaep::ops
