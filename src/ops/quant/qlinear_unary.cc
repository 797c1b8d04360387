// com.microsoft's QLinearSigmoid and QLinearLeakyRelu.
#include "kernels/quant/qlinear.h"
#include "ops/quant/qlinear_value.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum class Function { kSigmoid, kLeakyRelu };
enum Input : size_t { kX, kXScale, kXZero, kYScale, kYZero };

struct TablePlan : Plan {
  kernels::ByteTable table;
};

// A function of one byte is a table of 256.
class QLinearUnary final : public Operator {
 public:
  QLinearUnary(Function function, bool is_signed, float alpha)
      : function_(function), is_signed_(is_signed), alpha_(alpha) {}

  static Result<std::unique_ptr<QLinearUnary>> Create(const OpInfo& info, const KernelRow& row) {
    return std::make_unique<QLinearUnary>(row.VariantAs<Function>(), info.input_type(kX) == DataType::kInt8,
                                          info.FloatOr("alpha", 0.01f));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    outputs[0].Assign(inputs[kX].dims());
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<TablePlan>();
    CUDAEP_ASSIGN_OR_RETURN(const QLinearValue x, ReadQLinear(context.inputs, kXScale, kXZero));
    CUDAEP_ASSIGN_OR_RETURN(const QLinearValue y, ReadQLinear(context.inputs, kYScale, kYZero));
    for (int byte = 0; byte < 256; ++byte) {
      const int32_t code = is_signed_ ? static_cast<int8_t>(byte) : byte;
      plan->table.of[byte] = y.ByteOf(Of(x.Real(code)), is_signed_);
    }
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const int64_t elems = plan.outputs[0].elems();
    return kernels::LaunchByteTable(PlanAs<TablePlan>(plan).table, context.input(kX), context.output(0), 1, elems,
                                    elems, context.stream());
  }

 private:
  float Of(float x) const {
    if (function_ == Function::kLeakyRelu) return x >= 0 ? x : alpha_ * x;
    return 1.0f / (1.0f + std::exp(-x));
  }

  Function function_;
  bool is_signed_;
  float alpha_;
};

KernelRow Row(const char* op, Function variant) {
  return {.domain = kMicrosoftDomain,
          .op = op,
          .types = {{"T", kInt8Types}},
          .host_inputs = {kXScale, kXZero, kYScale, kYZero},
          .variant = static_cast<int>(variant),
          .make = Make<QLinearUnary>};
}

const RegisterRows kRows({
    Row("QLinearSigmoid", Function::kSigmoid),
    Row("QLinearLeakyRelu", Function::kLeakyRelu),
});

}  // namespace
}  // namespace cudaep::ops
