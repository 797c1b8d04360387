// IsNaN and IsInf. Of the 256 values of an 8-bit float a table says which are.
#include "kernels/elementwise/unary.h"
#include "kernels/quant/qlinear.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum class Variant : uint8_t { kNotANumber, kInfinite };

// Formats without infinities have none; those of "uz" have their one NaN in place of -0.
bool IsNaN(DataType type, int byte) {
  switch (type) {
    case DataType::kFloat8E4M3FN:
      return (byte & 0x7F) == 0x7F;
    case DataType::kFloat8E5M2:
      return (byte & 0x7F) > 0x7C;
    default:
      return byte == 0x80;
  }
}

class Predicate final : public Operator {
 public:
  Predicate(const OpInfo& info, Variant variant)
      : negative_(info.BoolOr("detect_negative", true)), positive_(info.BoolOr("detect_positive", true)) {
    const DataType type = info.input_type(0);
    kernel_ = kernels::FindUnaryKernel(variant == Variant::kNotANumber ? "IsNaN" : "IsInf", type);
    for (int byte = 0; byte < 256; ++byte) {
      const bool infinite =
          type == DataType::kFloat8E5M2 && ((byte == 0x7C && positive_) || (byte == 0xFC && negative_));
      table_.of[byte] = variant == Variant::kNotANumber ? IsNaN(type, byte) : infinite;
    }
  }

  static Result<std::unique_ptr<Predicate>> Create(const OpInfo& info, const KernelRow& row) {
    return std::make_unique<Predicate>(info, row.VariantAs<Variant>());
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    outputs[0] = Shape(inputs[0].dims());
    return Status::Ok();
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const int64_t elems = plan.outputs[0].elems();
    if (kernel_ == nullptr) {
      return kernels::LaunchByteTable(table_, context.input(0), context.output(0), 1, elems, elems, context.stream());
    }
    return kernel_({.x = context.input(0),
                    .y = context.output(0),
                    .elems = elems,
                    .alpha = negative_ ? 1.0 : 0.0,
                    .beta = positive_ ? 1.0 : 0.0},
                   context.stream());
  }

 private:
  bool negative_, positive_;
  kernels::UnaryKernel kernel_ = nullptr;  // null: the table
  kernels::ByteTable table_{};
};

KernelRow Row(const char* op, Variant variant, int since, int until, DataTypeSet types) {
  return {.op = op,
          .since = since,
          .until = until,
          .types = {{"T1", types}, {"T2", DataType::kBool}},
          .variant = static_cast<int>(variant),
          .make = Make<Predicate>};
}

const RegisterRows kRows({
    Row("IsNaN", Variant::kNotANumber, 9, 13, kFloatTypes),
    Row("IsNaN", Variant::kNotANumber, 20, 20, kFloatTypes | kFloat8Types),
    Row("IsInf", Variant::kInfinite, 10, 10, kFloatTypes),
    Row("IsInf", Variant::kInfinite, 20, 20, kFloatTypes | kFloat8Types),
});

}  // namespace
}  // namespace cudaep::ops
