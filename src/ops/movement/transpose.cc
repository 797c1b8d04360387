#include "kernels/movement/transpose.h"

#include <numeric>

#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct TransposePlan : Plan {
  kernels::TransposePlan transpose;
};

class Transpose final : public Operator {
 public:
  explicit Transpose(std::optional<std::vector<int64_t>> perm) : perm_(std::move(perm)) {}

  static Result<std::unique_ptr<Transpose>> Create(const OpInfo& info) {
    return std::make_unique<Transpose>(info.Ints("perm"));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims dims = inputs[0].dims();
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<int64_t> perm, PermutationOf(dims));
    outputs[0].Resize(inputs[0].rank);
    for (size_t i = 0; i < perm.size(); ++i) outputs[0][static_cast<int>(i)] = dims[static_cast<size_t>(perm[i])];
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const TensorView& input = context.inputs[0];
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<int64_t> perm, PermutationOf(input.dims()));
    auto plan = std::make_unique<TransposePlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->transpose, kernels::PlanTranspose(input.dims(), perm, SizeOf(input.type)));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchTranspose(PlanAs<TransposePlan>(plan).transpose, context.input(0), context.output(0),
                                    context.stream());
  }

 private:
  // The attribute, or by default the reverse order of dimensions.
  Result<std::vector<int64_t>> PermutationOf(Dims dims) const {
    const auto rank = static_cast<int64_t>(dims.size());
    std::vector<int64_t> perm(dims.size());
    std::iota(perm.rbegin(), perm.rend(), 0);
    if (!perm_) return perm;
    if (!std::is_permutation(perm_->begin(), perm_->end(), perm.begin(), perm.end())) {
      return InvalidArgument("perm ", Dims(*perm_), " is not a permutation of the ", rank, " dimensions of ", dims);
    }
    return *perm_;
  }

  std::optional<std::vector<int64_t>> perm_;
};

const RegisterRows kRows({
    {.op = "Transpose", .since = 1, .until = 25, .types = {{"T", kAnySizedTypes}}, .make = Make<Transpose>},
});

}  // namespace
}  // namespace cudaep::ops
