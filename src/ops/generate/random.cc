// RandomNormal, RandomUniform, the same in the shape of an input, and Bernoulli. A CUDA graph would repeat its numbers,
// so none captures them.
#include <cmath>
#include <limits>

#include "core/float16.h"
#include "ops/generate/random_source.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

using kernels::Distribution;

enum class Variant : uint8_t { kNormal, kUniform, kBernoulli };

// The output's type: attribute `dtype`, or without it that of the input, or else float.
Result<DataType> OutputType(const OpInfo& info, DataTypeSet offered) {
  const DataType without = info.input_count() > 0 ? info.input_type(0) : DataType::kFloat;
  const int64_t code = info.IntOr("dtype", static_cast<int64_t>(without));
  if (code < 0 || code >= kDataTypeCount) return InvalidArgument("dtype ", code, " is no element type");
  const auto type = static_cast<DataType>(code);
  if (!offered.Contains(type)) return NotSupported("output of ", DataTypeName(type));
  return type;
}

// The ends of a uniform distribution, of which every number must be one of the type.
Status CheckEnd(const OpInfo& info, const char* attribute, float fallback, DataType type) {
  const float end = info.FloatOr(attribute, fallback);
  const float most = type == DataType::kFloat16    ? 65504.0f
                     : type == DataType::kBFloat16 ? 0x1.FEp127f
                                                   : std::numeric_limits<float>::max();
  if (std::abs(end) <= most) return Status::Ok();
  return InvalidArgument("attribute ", attribute, " is ", end, ", which is no finite number of ", DataTypeName(type));
}

PlanPtr UncapturedPlan() {
  auto plan = std::make_unique<Plan>();
  plan->capturable = false;
  return plan;
}

class Random final : public Operator {
 public:
  Random(const OpInfo& info, Variant variant, DataType type, std::optional<Shape> shape)
      : source_(info), type_(type), shape_(std::move(shape)) {
    const bool normal = variant == Variant::kNormal;
    distribution_ = normal ? Distribution::kNormal : Distribution::kUniform;
    first_ = info.FloatOr(normal ? "mean" : "low", 0.0f);
    second_ = info.FloatOr(normal ? "scale" : "high", 1.0f);
  }

  static Result<std::unique_ptr<Random>> Create(const OpInfo& info, const KernelRow& row) {
    CUDAEP_ASSIGN_OR_RETURN(const DataType type, OutputType(info, kFloatTypes));
    if (row.VariantAs<Variant>() == Variant::kUniform) {
      CUDAEP_RETURN_IF_ERROR(CheckEnd(info, "low", 0.0f, type));
      CUDAEP_RETURN_IF_ERROR(CheckEnd(info, "high", 1.0f, type));
    }
    std::optional<Shape> shape;
    if (info.input_count() == 0) {
      const std::optional<std::vector<int64_t>> dims = info.Ints("shape");
      if (!dims) return InvalidArgument("attribute shape is missing");
      CUDAEP_RETURN_IF_ERROR(CheckedElementCount(*dims).status());
      shape.emplace(Dims(*dims));
    }
    return std::make_unique<Random>(info, row.VariantAs<Variant>(), type, std::move(shape));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    outputs[0] = shape_ ? *shape_ : Shape(inputs[0].dims());
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext&) const override { return UncapturedPlan(); }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchRandom(distribution_, first_, second_, source_.Next(), type_, plan.outputs[0].elems(),
                                 context.output(0), context.stream());
  }

 private:
  RandomSource source_;
  DataType type_;
  std::optional<Shape> shape_;
  Distribution distribution_ = Distribution::kNormal;
  double first_ = 0, second_ = 1;
};

// The bits of 1.
uint64_t OneOf(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return std::bit_cast<uint32_t>(1.0f);
    case DataType::kDouble:
      return std::bit_cast<uint64_t>(1.0);
    case DataType::kFloat16:
      return 0x3C00;
    case DataType::kBFloat16:
      return 0x3F80;
    default:
      return 1;
  }
}

constexpr DataTypeSet kBernoulliTypes = kNumericTypes | DataTypeSet{DataType::kBool};

class Bernoulli final : public Operator {
 public:
  Bernoulli(const OpInfo& info, DataType type) : source_(info), chances_(info.input_type(0)), type_(type) {}

  static Result<std::unique_ptr<Bernoulli>> Create(const OpInfo& info) {
    CUDAEP_ASSIGN_OR_RETURN(const DataType type, OutputType(info, kBernoulliTypes));
    return std::make_unique<Bernoulli>(info, type);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    outputs[0].Assign(inputs[0].dims());
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext&) const override { return UncapturedPlan(); }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchBernoulli(source_.Next(), chances_, context.input(0), OneOf(type_), SizeOf(type_),
                                    plan.outputs[0].elems(), context.output(0), context.stream());
  }

 private:
  RandomSource source_;
  DataType chances_, type_;
};

KernelRow Row(const char* op, int since, Variant variant, std::vector<TypeConstraint> types, OperatorFactory make) {
  return {.op = op,
          .since = since,
          .until = 22,
          .types = std::move(types),
          .pure = false,
          .variant = static_cast<int>(variant),
          .make = make};
}

const RegisterRows kRows({
    Row("RandomNormal", 1, Variant::kNormal, {{"T", kFloatTypes}}, Make<Random>),
    Row("RandomUniform", 1, Variant::kUniform, {{"T", kFloatTypes}}, Make<Random>),
    Row("RandomNormalLike", 1, Variant::kNormal, {{"T1", kFixedSizeTypes}, {"T2", kFloatTypes}}, Make<Random>),
    Row("RandomUniformLike", 1, Variant::kUniform, {{"T1", kFixedSizeTypes}, {"T2", kFloatTypes}}, Make<Random>),
    Row("Bernoulli", 15, Variant::kBernoulli, {{"T1", kFloatTypes}, {"T2", kBernoulliTypes}}, Make<Bernoulli>),
});

}  // namespace
}  // namespace cudaep::ops
