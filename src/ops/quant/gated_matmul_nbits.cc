// A gated product of compiled regions (graph/pass/gated_nbits.h), GatedMatMulNBits: activation(A * B1) * (A * B2), both
// weights of few bits as MatMulNBits has them (K, N, bits, block_size), packed where they are constants. "activation"
// is as ActivationName has it. By one kernel (kernels/quant/gated_nbits.h), or as two products and their gate.
#include <algorithm>
#include <utility>

#include "kernels/elementwise/gated.h"
#include "kernels/quant/gated_nbits.h"
#include "ops/activation_attributes.h"
#include "ops/quant/nbits_product.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input : int { kA, kB1, kScales1, kZeroPoints1, kB2, kScales2, kZeroPoints2 };

struct GatedNBitsPlan : Plan {
  bool one_launch = false;
  NBitsWay first_way, second_way;
  size_t first = 0, second = 0;  // scratch memory: both factors
};

class GatedMatMulNBits final : public Operator {
 public:
  static Result<std::unique_ptr<GatedMatMulNBits>> Create(const OpInfo& info) {
    auto op = std::make_unique<GatedMatMulNBits>();
    CUDAEP_ASSIGN_OR_RETURN(op->activation_, ParseGate(info, "activation"));
    CUDAEP_ASSIGN_OR_RETURN(
        op->first_, NBitsProduct::Make(info, {.a = kA, .b = kB1, .scales = kScales1, .zero_points = kZeroPoints1}));
    CUDAEP_ASSIGN_OR_RETURN(
        op->second_, NBitsProduct::Make(info, {.a = kA, .b = kB2, .scales = kScales2, .zero_points = kZeroPoints2}));
    if (op->first_.zero_point() != op->second_.zero_point()) {
      return InvalidArgument("both factors have zero points of one type, or neither has any");
    }
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_RETURN_IF_ERROR(first_.InferShape(inputs, outputs[0]));
    return second_.InferShape(inputs, outputs[0]);
  }

  Result<size_t> PackedBytes(int index, const TensorView& weight) const override {
    return Owner(index).PackedBytes(index, weight);
  }
  Status Pack(int index, const TensorView& weight, void* packed, StreamContext& runtime) const override {
    return Owner(index).Pack(index, weight, packed, runtime);
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<GatedNBitsPlan>();
    const Shape& y = context.outputs[0];
    plan->cost_flops = 2 * ProductFlops(y, context.inputs[kA].dims().back());
    const kernels::MatMulNBits first = first_.Problem(context.inputs, y), second = second_.Problem(context.inputs, y);
    plan->one_launch =
        second.all_packed() && kernels::FitsGatedNBits({.product = first, .activation = activation_}, context.device);
    if (plan->one_launch) return PlanPtr(std::move(plan));
    const size_t bytes = static_cast<size_t>(y.elems()) * SizeOf(first.type);
    plan->first = plan->AddScratch(bytes);
    plan->second = plan->AddScratch(bytes);
    // One after the other, in the same memory.
    const size_t begin = plan->workspace_bytes;
    CUDAEP_ASSIGN_OR_RETURN(plan->first_way, first_.MakeWay(context, *plan));
    const size_t end = std::exchange(plan->workspace_bytes, begin);
    CUDAEP_ASSIGN_OR_RETURN(plan->second_way, second_.MakeWay(context, *plan));
    plan->workspace_bytes = std::max(plan->workspace_bytes, end);
    return PlanPtr(std::move(plan));
  }

  LibrarySet libraries() const override { return {.blas = true}; }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<GatedNBitsPlan>(base);
    const Shape& y = plan.outputs[0];
    const kernels::MatMulNBits first = first_.Problem(context.inputs, y);
    if (plan.one_launch) {
      const kernels::MatMulNBitsPointers second = second_.Pointers(context, nullptr);
      const kernels::GatedNBitsPointers at{.first = first_.Pointers(context, context.output(0)),
                                           .b = second.b,
                                           .scales = second.scales,
                                           .zero_points = second.zero_points};
      return kernels::LaunchGatedNBits({.product = first, .activation = activation_}, at, context.runtime.device_info(),
                                       context.stream());
    }
    void* const factors = context.scratch(plan.first);
    CUDAEP_RETURN_IF_ERROR(first_.Enqueue(plan.first_way, first, first_.Pointers(context, factors), context));
    CUDAEP_RETURN_IF_ERROR(second_.Enqueue(plan.second_way, second_.Problem(context.inputs, y),
                                           second_.Pointers(context, context.scratch(plan.second)), context));
    const auto other = static_cast<int64_t>((plan.second - plan.first) / SizeOf(first.type));
    return kernels::LaunchGated(first.type, activation_, factors, 1, y.elems(), 0, other, context.output(0),
                                context.stream());
  }

 private:
  const NBitsProduct& Owner(int index) const { return index < kB2 ? first_ : second_; }

  NBitsProduct first_, second_;
  Activation activation_ = Activation::kNone;
};

const RegisterRows kRows({
    {.domain = kFusedDomain,
     .op = "GatedMatMulNBits",
     .types = {{"T1", kFloatTypesNoDouble}, {"T2", DataType::kUint8}},
     .make = Make<GatedMatMulNBits>},
});

}  // namespace
}  // namespace cudaep::ops
