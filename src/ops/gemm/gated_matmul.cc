// A gated product of compiled regions (graph/pass/gated_products.h), GatedMatMul: activation(a) * b of the halves a and
// b of the columns of A * B + bias, or activation(b) * a with "activated" 1. Inputs [A, B, bias] and attributes are
// those of the fused MatMul (matmul.cc), without an activation of that, and of Gated (ops/elementwise/gated.cc): "gate"
// is its activation. By one kernel (kernels/gemm/gated_product.h), or as the product and its gate.
#include "kernels/elementwise/gated.h"
#include "kernels/gemm/gated_product.h"
#include "ops/activation_attributes.h"
#include "ops/call_tensors.h"
#include "ops/gemm/matmul.h"
#include "ops/gemm/short_product.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct GatedMatMulPlan : Plan {
  PlanPtr matmul;  // null where one kernel does all
  size_t scratch = 0;
  std::optional<kernels::FewRowsPlan> few_rows;
  std::optional<kernels::WarpgroupPlan> many_rows;
  int64_t m = 0, n = 0, k = 0;  // n: of the result
};

class GatedMatMul final : public MatMul {
 public:
  static Result<std::unique_ptr<GatedMatMul>> Create(const OpInfo& info) {
    auto op = std::make_unique<GatedMatMul>();
    CUDAEP_RETURN_IF_ERROR(op->Read(info, true));
    CUDAEP_ASSIGN_OR_RETURN(op->gate_, ParseGate(info, "gate"));
    op->second_ = info.BoolOr("activated", false);
    const std::optional<ConstantInfo> weights = info.constant(kB);
    const bool plain = op->IsPlain() && !op->epilogue_.residual() && op->epilogue_.activation == Activation::kNone;
    if (!plain || !weights || weights->dims.rank() != 2) {
      return InvalidArgument(
          "a gated product wants a constant matrix of weights, and neither a residual, nor a scale, "
          "nor an activation of its own");
    }
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_RETURN_IF_ERROR(MatMul::InferShapes(inputs, outputs));
    Shape& y = outputs[0];
    if (y.rank() == 0 || y[y.rank() - 1] % 2 != 0) return InvalidArgument("the columns of ", y, " must be even");
    y[y.rank() - 1] /= 2;
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<GatedMatMulPlan>();
    const Dims a = context.inputs[kA].dims(), y = context.outputs[0];
    plan->m = ElementCount(y.first(y.size() - 1)), plan->n = y.back(), plan->k = a.back();
    if (options_.may_be_short && (b_.transpose || context.inputs[kB].packed)) {
      const kernels::GatedProduct product = Product(*plan);
      plan->few_rows = kernels::PlanGatedFewRows(product, context.device);
      if (plan->m > kernels::kFewRows) plan->many_rows = kernels::PlanGatedRows(product, context.device);
    }
    if (!plan->few_rows && !plan->many_rows) {
      CUDAEP_ASSIGN_OR_RETURN(plan->matmul, MatMul::MakePlan(context));
      plan->workspace_bytes = plan->matmul->workspace_bytes;
      plan->settled = plan->matmul->settled;
      plan->scratch = plan->AddScratch(static_cast<size_t>(2 * plan->m * plan->n) * SizeOf(type_));
    }
    plan->cost_flops = 2 * ProductFlops(context.outputs[0], plan->k);
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<GatedMatMulPlan>(base);
    if (plan.matmul == nullptr) return EnqueueOne(plan, context);
    void* const whole[] = {context.scratch(plan.scratch)};
    OpContext product = context;
    product.outputs = whole;
    CUDAEP_RETURN_IF_ERROR(MatMul::Enqueue(*plan.matmul, product));
    return kernels::LaunchGated(type_, gate_, whole[0], plan.m, plan.n, second_ ? plan.n : 0, second_ ? 0 : plan.n,
                                context.output(0), context.stream());
  }

 private:
  kernels::GatedProduct Product(const GatedMatMulPlan& plan) const {
    return {.type = type_,
            .m = plan.m,
            .n = plan.n,
            .k = plan.k,
            .bias = epilogue_.bias,
            .activation = gate_,
            .second = second_,
            .constant_b = true,
            .constant_bias = options_.constant_bias};
  }

  Status EnqueueOne(const GatedMatMulPlan& plan, const OpContext& context) const {
    const auto bytes = [&](int64_t elems) { return elems * static_cast<int64_t>(SizeOf(type_)); };
    enum Tensor : size_t { kRead, kWeights, kAdded, kMade };
    CallTensor tensors[] = {{context.input(kA), bytes(plan.m * plan.k)},
                            {context.input(kB), bytes(2 * plan.n * plan.k)},
                            {epilogue_.bias ? context.input(kBias) : nullptr, bytes(2 * plan.n)},
                            {.at = context.output(0), .bytes = bytes(plan.m * plan.n), .written = true}};
    kernels::GatedProduct product = Product(plan);
    product.constant_b = !tensors[kWeights].IsCopied();
    product.constant_bias &= !tensors[kAdded].IsCopied();
    return CallInPacks(context.runtime, tensors, [&] {
      const kernels::GatedPointers at{.a = tensors[kRead].at,
                                      .b = tensors[kWeights].at,
                                      .c = const_cast<void*>(tensors[kMade].at),
                                      .bias = tensors[kAdded].at};
      return plan.few_rows ? kernels::LaunchGatedFewRows(product, *plan.few_rows, at, context.stream())
                           : kernels::LaunchGatedRows(product, *plan.many_rows, at, context.stream());
    });
  }

  Activation gate_ = Activation::kNone;
  bool second_ = false;
};

const RegisterRows kRows({
    {.domain = kFusedDomain, .op = "GatedMatMul", .types = {{"T", kFloat16Types}}, .make = Make<GatedMatMul>},
});

}  // namespace
}  // namespace cudaep::ops
