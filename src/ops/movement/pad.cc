// Pad: pads and value are attributes before version 11 and inputs since, pads and axes of them in host memory. The
// value stays on the device, so that one that a kernel computes is not waited for.
#include "kernels/movement/pad.h"

#include "core/float16.h"
#include "ops/registry.h"
#include "ops/shape/host_ints.h"

namespace cudaep::ops {
namespace {

using kernels::PadMode;

struct PadPlan : Plan {
  kernels::PadCopy copy;
};

Result<PadMode> ModeOf(const OpInfo& info) {
  const std::string mode = info.StringOr("mode", "constant");
  if (mode == "constant") return PadMode::kConstant;
  if (mode == "reflect") return PadMode::kReflect;
  if (mode == "edge") return PadMode::kEdge;
  if (mode == "wrap" && info.since_version() >= 19) return PadMode::kWrap;
  return InvalidArgument("mode '", mode, "' is not one of version ", info.since_version());
}

// A number as the low bytes of an element.
uint64_t BitsOfValue(float value, DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return HalfFromFloat(value).bits;
    case DataType::kDouble:
      return std::bit_cast<uint64_t>(static_cast<double>(value));
    default:
      return std::bit_cast<uint32_t>(value);
  }
}

// That of com.microsoft also takes them as a row.
Result<std::vector<int64_t>> PadsOf(const TensorView& input) {
  TensorView list = input;
  if (input.rank == 2 && input.dim[0] == 1)
    list = {.data = input.data, .dim = input.dim + 1, .rank = 1, .type = input.type};
  return HostInts(list, "pads");
}

class Pad final : public Operator {
 public:
  // Before version 11.
  struct Attributes {
    std::vector<int64_t> pads;
    uint64_t value_bits = 0;
  };
  Pad(PadMode mode, std::optional<Attributes> attributes) : mode_(mode), attributes_(std::move(attributes)) {}

  static Result<std::unique_ptr<Pad>> Create(const OpInfo& info) {
    CUDAEP_ASSIGN_OR_RETURN(const PadMode mode, ModeOf(info));
    if (info.since_version() >= 11 || info.domain() == kMicrosoftDomain)
      return std::make_unique<Pad>(mode, std::nullopt);
    const uint64_t bits = BitsOfValue(info.FloatOr("value", 0.0f), info.input_type(0));
    return std::make_unique<Pad>(mode, Attributes{info.IntsOr("pads", {}), bits});
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    if (inputs.size() > 2 && inputs[2].present() && inputs[2].elems() != 1) {
      return InvalidArgument("constant_value has shape ", inputs[2].dims(), ", expected one element");
    }
    CUDAEP_ASSIGN_OR_RETURN(const Amounts amounts, AmountsOf(inputs));
    outputs[0].Assign(inputs[0].dims());
    for (int d = 0; d < outputs[0].rank(); ++d) {
      int64_t& dim = outputs[0][d];
      const auto at = static_cast<size_t>(d);
      if (!CheckedAdd(dim, amounts.begins[at], &dim) || !CheckedAdd(dim, amounts.ends[at], &dim) || dim < 0) {
        return InvalidArgument("dimension ", inputs[0].dim[d], " with pads ", amounts.begins[at], " and ",
                               amounts.ends[at], " is no size");
      }
    }
    CUDAEP_RETURN_IF_ERROR(CheckedElementCount(outputs[0]).status());
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const TensorView& input = context.inputs[0];
    CUDAEP_ASSIGN_OR_RETURN(const Amounts amounts, AmountsOf(context.inputs));
    auto plan = std::make_unique<PadPlan>();
    CUDAEP_ASSIGN_OR_RETURN(
        plan->copy, kernels::MakePadCopy(input.dims(), amounts.begins, amounts.ends, mode_, SizeOf(input.type)));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    kernels::PadValue value{.bits = attributes_ ? attributes_->value_bits : 0};
    if (context.inputs.size() > 2 && context.inputs[2].present()) value.pointer = context.input(2);
    return kernels::LaunchPad(PlanAs<PadPlan>(plan).copy, context.input(0), value, context.output(0), context.stream());
  }

 private:
  // For every dimension of the input.
  struct Amounts {
    std::vector<int64_t> begins, ends;
  };

  Result<Amounts> AmountsOf(TensorViews inputs) const {
    const int rank = inputs[0].rank;
    std::vector<int64_t> pads, axes;
    if (attributes_) {
      pads = attributes_->pads;
    } else {
      CUDAEP_ASSIGN_OR_RETURN(pads, PadsOf(inputs[1]));
    }
    if (inputs.size() > 3 && inputs[3].present()) {
      CUDAEP_ASSIGN_OR_RETURN(axes, HostInts(inputs[3], "axes"));
    } else {
      for (int d = 0; d < rank; ++d) axes.push_back(d);
    }
    if (pads.size() != 2 * axes.size()) {
      return InvalidArgument("pads ", Dims(pads), " must have two numbers for each of ", axes.size(), " dimensions");
    }
    const auto dims = static_cast<size_t>(rank);
    Amounts amounts{std::vector<int64_t>(dims), std::vector<int64_t>(dims)};
    std::vector<bool> seen(dims, false);
    for (size_t i = 0; i < axes.size(); ++i) {
      CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axes[i], rank));
      const auto d = static_cast<size_t>(axis);
      if (seen[d]) return InvalidArgument("axis ", axes[i], " is named twice");
      seen[d] = true;
      amounts.begins[d] = pads[i];
      amounts.ends[d] = pads[i + axes.size()];
    }
    return amounts;
  }

  PadMode mode_;
  std::optional<Attributes> attributes_;
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "Pad",
     .since = 1,
     .until = 1,
     .types = {{"T", {DataType::kFloat, DataType::kFloat16, DataType::kDouble}}},
     .host_inputs = {1},
     .make = Make<Pad>},
    {.op = "Pad",
     .since = 2,
     .until = 2,
     .types = {{"T", {DataType::kFloat, DataType::kFloat16, DataType::kDouble}}},
     .make = Make<Pad>},
    {.op = "Pad", .since = 11, .until = 13, .types = {{"T", kFixedSizeTypes}}, .host_inputs = {1}, .make = Make<Pad>},
    {.op = "Pad",
     .since = 18,
     .until = 25,
     .types = {{"T", kAnySizedTypes | DataTypeSet(DataType::kFloat8E8M0)}, {"Tind", kIndexTypes}},
     .host_inputs = {1, 3},
     .make = Make<Pad>},
});

}  // namespace
}  // namespace cudaep::ops
