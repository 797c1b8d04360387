// Gaussian error linear units: ONNX Gelu, and com.microsoft's forms with and without a bias of the last dimension.
#include "kernels/elementwise/binary.h"
#include "kernels/elementwise/unary.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct GeluPlan : Plan {
  kernels::Broadcast<2> broadcast;  // only with a bias
};

enum class Variant : uint8_t { kGelu, kBiasGelu, kFastGelu };

// The functor of a node, or an error for an unknown approximation.
Result<std::string_view> FunctorOf(const OpInfo& info, Variant variant) {
  using namespace std::string_view_literals;
  if (variant == Variant::kBiasGelu) return "BiasGelu"sv;
  if (variant == Variant::kFastGelu) return info.has_input(1) ? "BiasFastGelu"sv : "FastGelu"sv;
  const std::string approximate = info.StringOr("approximate", "none");
  if (approximate == "none") return "Gelu"sv;
  if (approximate == "tanh") return "FastGelu"sv;
  return InvalidArgument("approximate must be 'none' or 'tanh', not '", approximate, "'");
}

class Gelu : public Operator {
 public:
  Gelu(kernels::UnaryKernel plain, kernels::BinaryKernel biased) : plain_(plain), biased_(biased) {}

  static Result<std::unique_ptr<Gelu>> Create(const OpInfo& info, const KernelRow& row) {
    CUDAEP_ASSIGN_OR_RETURN(const std::string_view functor, FunctorOf(info, row.VariantAs<Variant>()));
    const DataType type = info.input_type(0);
    const auto plain = info.has_input(1) ? nullptr : kernels::FindUnaryKernel(functor, type);
    const auto biased = info.has_input(1) ? kernels::FindBinaryKernel(functor, type) : nullptr;
    if (plain == nullptr && biased == nullptr) return NotSupported("element type ", DataTypeName(type));
    return std::make_unique<Gelu>(plain, biased);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims x = inputs[0].dims();
    if (biased_ != nullptr) {
      const Dims bias = inputs[1].dims();
      if (bias.size() != 1 || x.empty() || bias[0] != x.back()) {
        return InvalidArgument("the bias has shape ", bias, ", not the last dimension of ", x);
      }
    }
    outputs[0] = Shape(x);
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<GeluPlan>();
    if (biased_ != nullptr) {
      CUDAEP_ASSIGN_OR_RETURN(
          plan->broadcast,
          kernels::MakeBroadcast<2>(context.outputs[0], {context.inputs[0].dims(), context.inputs[1].dims()}));
    }
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    if (plain_ != nullptr) {
      return plain_({.x = context.input(0), .y = context.output(0), .elems = plan.outputs[0].elems()},
                    context.stream());
    }
    return biased_({.a = context.input(0),
                    .b = context.input(1),
                    .y = context.output(0),
                    .broadcast = &PlanAs<GeluPlan>(plan).broadcast},
                   context.stream());
  }

 private:
  kernels::UnaryKernel plain_;  // exactly one of the two is set
  kernels::BinaryKernel biased_;
};

KernelRow Row(const char* domain, const char* op, Variant variant, int version) {
  return {.domain = domain,
          .op = op,
          .since = version,
          .until = version,
          .types = {{"T", kFloatTypes}},
          .in_place = {{0, 0}},
          .variant = static_cast<int>(variant),
          .make = Make<Gelu>};
}

const RegisterRows kRows({
    Row(kOnnxDomain, "Gelu", Variant::kGelu, 20),
    Row(kMicrosoftDomain, "BiasGelu", Variant::kBiasGelu, 1),
    Row(kMicrosoftDomain, "FastGelu", Variant::kFastGelu, 1),
    Row(kMicrosoftDomain, "Gelu", Variant::kGelu, 1),
});

}  // namespace
}  // namespace cudaep::ops
