// com.microsoft's MoE and QMoE: experts of two products, of which each token has `k`.
#include "kernels/moe/moe.h"

#include "ops/moe/moe_form.h"
#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input : int { kX, kRouter };

struct MoePlan : Plan {
  kernels::MoeRouting routing;
  kernels::MoeProduct first, second;
  bool few = false;
  size_t expert = 0, weight = 0, order = 0, tiles = 0, hidden = 0, results = 0;  // scratch
};

class Moe final : public Operator {
 public:
  explicit Moe(MoeForm form) : form_(form) {}

  static Result<std::unique_ptr<Moe>> Create(const OpInfo& info) {
    CUDAEP_ASSIGN_OR_RETURN(const MoeForm form, ParseMoe(info));
    return std::make_unique<Moe>(form);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_RETURN_IF_ERROR(Measure(inputs).status());
    outputs[0].Assign(inputs[kX].dims());
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    CUDAEP_ASSIGN_OR_RETURN(const MoeSizes s, Measure(context.inputs));
    auto plan = std::make_unique<MoePlan>();
    const auto product = [&](int matrix, int64_t n, int64_t k) {
      return kernels::MoeProduct{.type = form_.type,
                                 .tokens = s.tokens,
                                 .experts = s.experts,
                                 .top_k = form_.top_k,
                                 .n = n,
                                 .k = k,
                                 .bits = form_.bits[matrix],
                                 .block = form_.block};
    };
    plan->first = product(0, s.inner, s.hidden);
    plan->first.gate = form_.gate;
    plan->first.activation = form_.activation;
    plan->first.alpha = form_.alpha, plan->first.beta = form_.beta, plan->first.limit = form_.limit;
    plan->first.limit_after = form_.limit_after;
    plan->second = product(1, s.hidden, s.inner);
    plan->second.second = true;
    plan->few = kernels::MoeIsFew(plan->first, plan->second, context.device);
    plan->routing = {.type = form_.type,
                     .tokens = s.tokens,
                     .experts = s.experts,
                     .top_k = form_.top_k,
                     .normalize = form_.normalize,
                     .sparse_mixer = form_.sparse_mixer,
                     .tile_rows = plan->few ? 0 : kernels::MoeTileRows(plan->first, context.device)};
    const int64_t entries = plan->first.entries(), size = static_cast<int64_t>(SizeOf(form_.type));
    plan->cost_flops = 2.0 * static_cast<double>(entries) * static_cast<double>(s.hidden) *
                       static_cast<double>(plan->first.rows() + s.inner);
    const auto scratch = [&](int64_t count, int64_t bytes) {
      return plan->AddScratch(static_cast<size_t>(count * bytes));
    };
    plan->expert = scratch(entries, sizeof(int32_t));
    plan->weight = scratch(entries, sizeof(float));
    plan->hidden = scratch(entries * s.inner, size);
    if (plan->few) return PlanPtr(std::move(plan));
    plan->order = scratch(entries, sizeof(int32_t));
    plan->tiles = scratch(plan->routing.tiles(), sizeof(kernels::MoeTile));
    plan->results = scratch(entries * s.hidden, size);
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<MoePlan>(base);
    const device::Stream stream = context.stream();
    const kernels::MoeRoutingPointers route{.scores = context.input(kRouter),
                                            .weights = InputAt(context.inputs, form_.router_weights).data,
                                            .expert = context.scratch<int32_t>(plan.expert),
                                            .weight = context.scratch<float>(plan.weight),
                                            .order = context.scratch<int32_t>(plan.order),
                                            .tiles = context.scratch<kernels::MoeTile>(plan.tiles)};
    CUDAEP_RETURN_IF_ERROR(kernels::LaunchMoeRouting(plan.routing, route, stream));
    kernels::MoeProductPointers at{.a = context.input(kX),
                                   .weights = Weights(context, 0, form_.gate == kernels::MoeGate::kSeparate ? 2 : -1),
                                   .expert = route.expert,
                                   .entry_weight = route.weight,
                                   .order = route.order,
                                   .tiles = route.tiles,
                                   .y = context.scratch(plan.hidden)};
    const int64_t tiles = plan.routing.tiles();
    const auto multiply = [&](const kernels::MoeProduct& product) {
      return plan.few ? kernels::LaunchMoeFew(product, at, stream)
                      : kernels::LaunchMoeProduct(product, at, plan.routing.tile_rows, tiles,
                                                  context.runtime.device_info(), stream);
    };
    CUDAEP_RETURN_IF_ERROR(multiply(plan.first));
    at.a = at.y;
    at.weights = Weights(context, 1, -1);
    at.y = plan.few ? context.output(0) : context.scratch(plan.results);
    CUDAEP_RETURN_IF_ERROR(multiply(plan.second));
    return plan.few ? Status::Ok() : kernels::LaunchMoeSum(plan.second, at.y, route.weight, context.output(0), stream);
  }

 private:
  kernels::MoeWeights Weights(const OpContext& context, int first, int second) const {
    kernels::MoeWeights weights;
    for (int i = 0; i < 2; ++i) {
      const int matrix = i == 0 ? first : second;
      if (matrix < 0) continue;
      const MoeMatrixInputs& at = form_.inputs[matrix];
      weights.weight[i] = context.input(at.weight);
      weights.scale[i] = InputAt(context.inputs, at.scale).data;
      weights.zero[i] = InputAt(context.inputs, at.zero).data;
      weights.bias[i] = InputAt(context.inputs, at.bias).data;
    }
    return weights;
  }

  Result<MoeSizes> Measure(TensorViews inputs) const {
    CUDAEP_ASSIGN_OR_RETURN(const MoeSizes s, MoeSizesOf(form_, inputs[kX].dims(), inputs[kRouter].dims(),
                                                         inputs[static_cast<size_t>(form_.inputs[1].weight)].dims()));
    const int64_t fused = form_.gate == kernels::MoeGate::kNone || form_.gate == kernels::MoeGate::kSeparate ? 1 : 2;
    CUDAEP_RETURN_IF_ERROR(CheckMatrix(inputs, 0, s.experts, fused * s.inner, s.hidden));
    CUDAEP_RETURN_IF_ERROR(CheckMatrix(inputs, 1, s.experts, s.hidden, s.inner));
    if (form_.gate == kernels::MoeGate::kSeparate) {
      CUDAEP_RETURN_IF_ERROR(CheckMatrix(inputs, 2, s.experts, s.inner, s.hidden));
    }
    CUDAEP_RETURN_IF_ERROR(CheckDims(inputs, form_.router_weights, "router_weights", inputs[kRouter].dims()));
    return s;
  }

  Status CheckMatrix(TensorViews inputs, int matrix, int64_t experts, int64_t rows, int64_t k) const {
    constexpr const char* kNames[3][4] = {{"fc1_experts_weights", "fc1_scales", "fc1_zero_points", "fc1_experts_bias"},
                                          {"fc2_experts_weights", "fc2_scales", "fc2_zero_points", "fc2_experts_bias"},
                                          {"fc3_experts_weights", "fc3_scales", "fc3_zero_points", "fc3_experts_bias"}};
    const MoeMatrixInputs& at = form_.inputs[matrix];
    const char* const* const names = kNames[matrix];
    const int64_t bits = form_.bits[matrix];
    CUDAEP_RETURN_IF_ERROR(CheckDims(inputs, at.bias, names[3], Shape{experts, rows}.dims()));
    if (bits == 0) return CheckDims(inputs, at.weight, names[0], Shape{experts, rows, k}.dims());
    if (k * bits % 8 != 0) return NotSupported(names[0], ": ", k, " weights of ", bits, " bits are no whole bytes");
    CUDAEP_RETURN_IF_ERROR(CheckDims(inputs, at.weight, names[0], Shape{experts, rows, k * bits / 8}.dims()));
    if (form_.block == 0) {
      CUDAEP_RETURN_IF_ERROR(CheckDims(inputs, at.scale, names[1], Shape{experts, rows}.dims()));
      return CheckDims(inputs, at.zero, names[2], Shape{experts, (rows * bits + 7) / 8}.dims());
    }
    if (k % form_.block != 0) return InvalidArgument(names[0], ": ", k, " weights in blocks of ", form_.block);
    const int64_t blocks = k / form_.block;
    CUDAEP_RETURN_IF_ERROR(CheckDims(inputs, at.scale, names[1], Shape{experts, rows, blocks}.dims()));
    return CheckDims(inputs, at.zero, names[2], Shape{experts, rows, (blocks * bits + 7) / 8}.dims());
  }

  static Status CheckDims(TensorViews inputs, int index, const char* name, Dims expected) {
    if (!HasInput(inputs, index) || SameDims(inputs[static_cast<size_t>(index)].dims(), expected)) return Status::Ok();
    return InvalidArgument(name, " has shape ", inputs[static_cast<size_t>(index)].dims(), ", expected ", expected);
  }

  const MoeForm form_;
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain, .op = "MoE", .types = {{"T", kFloatTypesNoDouble}}, .make = Make<Moe>},
    {.domain = kMicrosoftDomain,
     .op = "QMoE",
     .types = {{"T", kFloatTypesNoDouble}, {"T1", DataType::kUint8}, {"T2", kFloatTypesNoDouble}},
     .make = Make<Moe>},
});

}  // namespace
}  // namespace cudaep::ops
