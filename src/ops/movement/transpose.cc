#include "kernels/movement/transpose.h"

#include <numeric>

#include "kernels/elementwise/cast_narrow.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct TransposePlan : Plan {
  kernels::TransposePlan transpose;
  int64_t elems = 0;
  size_t bytes = 0, turned = 0;  // offsets of elements that share a byte, a byte each: as given, and transposed
};

// The unsigned integer of as many bits, for a type whose elements share a byte.
DataType CodeOf(DataType type) { return BitsOf(type) == 2 ? DataType::kUint2 : DataType::kUint4; }

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
    const bool shares = kSubByteTypes.Contains(input.type);
    CUDAEP_ASSIGN_OR_RETURN(plan->transpose,
                            kernels::PlanTranspose(input.dims(), perm, shares ? 1 : SizeOf(input.type)));
    plan->elems = input.elems();
    if (shares) {
      plan->bytes = plan->AddScratch(static_cast<size_t>(plan->elems));
      plan->turned = plan->AddScratch(static_cast<size_t>(plan->elems));
    }
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const auto& p = PlanAs<TransposePlan>(plan);
    if (kSubByteTypes.Contains(context.inputs[0].type)) return EnqueueByBytes(p, context);
    return kernels::LaunchTranspose(p.transpose, context.input(0), context.output(0), context.stream());
  }

 private:
  static Status EnqueueByBytes(const TransposePlan& p, const OpContext& context) {
    const DataType code = CodeOf(context.inputs[0].type);
    void *const bytes = context.scratch<void>(p.bytes), *const turned = context.scratch<void>(p.turned);
    const kernels::CastArgs apart{.x = context.input(0), .y = bytes, .to = DataType::kUint8, .elems = p.elems};
    const kernels::CastArgs together{.x = turned, .y = context.output(0), .to = code, .elems = p.elems};
    CUDAEP_RETURN_IF_ERROR(kernels::LaunchNarrowCast(code, apart, {}, context.stream()));
    CUDAEP_RETURN_IF_ERROR(kernels::LaunchTranspose(p.transpose, bytes, turned, context.stream()));
    return kernels::LaunchNarrowCast(DataType::kUint8, together, {}, context.stream());
  }

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
    {.op = "Transpose", .since = 1, .until = 25, .types = {{"T", kernels::kStoredTypes}}, .make = Make<Transpose>},
});

}  // namespace
}  // namespace cudaep::ops
