// com.microsoft's QLinearConcat: inputs with scales and zero points of their own, in those of the output.
#include "core/checked_math.h"
#include "kernels/quant/qlinear.h"
#include "ops/quant/qlinear_value.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

// Inputs: scale and zero point of Y, then for each tensor itself, its scale and its zero point.
constexpr size_t kFirst = 2, kOfEach = 3;
constexpr int kMostInputs = 1024;

struct ConcatPart {
  size_t input = 0;
  int64_t row = 0, offset = 0;  // bytes of a row, and where in the output's they begin
  kernels::ByteTable table;
};

struct QLinearConcatPlan : Plan {
  std::vector<ConcatPart> parts;
  int64_t rows = 0, row = 0;
};

class QLinearConcat final : public Operator {
 public:
  explicit QLinearConcat(int64_t axis) : axis_(axis) {}

  static Result<std::unique_ptr<QLinearConcat>> Create(const OpInfo& info) {
    const std::optional<int64_t> axis = info.Int("axis");
    if (!axis) return InvalidArgument("attribute axis is missing");
    if (info.input_count() > kMostInputs) return NotSupported(info.input_count(), " inputs; at most ", kMostInputs);
    for (int i = static_cast<int>(kFirst); i < info.input_count(); i += static_cast<int>(kOfEach)) {
      if (!kInt8Types.Contains(info.input_type(i))) {
        return InvalidArgument("input ", i, " of type ", DataTypeName(info.input_type(i)), "; a tensor stands here");
      }
    }
    return std::make_unique<QLinearConcat>(*axis);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    if (inputs.size() < kFirst + kOfEach || (inputs.size() - kFirst) % kOfEach != 0) {
      return InvalidArgument(inputs.size(), " inputs: each tensor comes with a scale and a zero point");
    }
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, inputs[kFirst].rank));
    Shape& y = outputs[0];
    y.Assign(inputs[kFirst].dims());
    for (size_t i = kFirst + kOfEach; i < inputs.size(); i += kOfEach) {
      const TensorView& x = inputs[i];
      bool fits = x.rank == y.rank();
      for (int d = 0; fits && d < y.rank(); ++d) fits = d == axis || x.dim[d] == y[d];
      if (!fits) return InvalidArgument("input ", i, " with shape ", x.dims(), " beside ", inputs[kFirst].dims());
      y[axis] += x.dim[axis];
    }
    return CheckedElementCount(y.dims()).status();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const TensorViews inputs = context.inputs;
    const Shape& y = context.outputs[0];
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, y.rank()));
    CUDAEP_ASSIGN_OR_RETURN(const QLinearValue to, ReadQLinear(inputs, 0, 1));
    const bool is_signed = inputs[1].type == DataType::kInt8;
    auto plan = std::make_unique<QLinearConcatPlan>();
    const int64_t inner = ElementCount(y.dims().subspan(static_cast<size_t>(axis) + 1));
    plan->rows = ElementCount(y.dims().first(static_cast<size_t>(axis)));
    plan->row = y[axis] * inner;
    int64_t offset = 0;
    for (size_t i = kFirst; i < inputs.size(); i += kOfEach) {
      CUDAEP_ASSIGN_OR_RETURN(const QLinearValue from, ReadQLinear(inputs, i + 1, i + 2));
      ConcatPart& part = plan->parts.emplace_back();
      part.input = i, part.row = inputs[i].dim[axis] * inner, part.offset = offset;
      offset += part.row;
      const bool from_signed = inputs[i].type == DataType::kInt8;
      for (int byte = 0; byte < 256; ++byte) {
        const int32_t code = from_signed ? static_cast<int8_t>(byte) : byte;
        part.table.of[byte] = to.ByteOf(from.Real(code), is_signed);
      }
    }
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const auto& p = PlanAs<QLinearConcatPlan>(plan);
    for (const ConcatPart& part : p.parts) {
      CUDAEP_RETURN_IF_ERROR(kernels::LaunchByteTable(part.table, context.input(static_cast<int>(part.input)),
                                                      context.output<std::byte>(0) + part.offset, p.rows, part.row,
                                                      p.row, context.stream()));
    }
    return Status::Ok();
  }

 private:
  int64_t axis_;
};

// All inputs but the tensors.
std::vector<int> HostInputs() {
  std::vector<int> host{0, 1};
  for (int i = static_cast<int>(kFirst); i < kMostInputs; ++i) {
    if ((i - static_cast<int>(kFirst)) % static_cast<int>(kOfEach) != 0) host.push_back(i);
  }
  return host;
}

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "QLinearConcat",
     .types = {{"T8", kInt8Types}, {"TF", DataType::kFloat}, {"TV", kInt8Types | DataTypeSet(DataType::kFloat)}},
     .host_inputs = HostInputs(),
     .make = Make<QLinearConcat>},
});

}  // namespace
}  // namespace cudaep::ops
