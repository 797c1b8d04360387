// Dropout for inference: the identity. The mask says that nothing was dropped; before version 12, where ONNX leaves it
// open, it is the host's zeros.
#include "kernels/movement/fill.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

class Dropout : public Operator {
 public:
  explicit Dropout(const OpInfo& info)
      : mask_type_(info.has_output(1) ? info.output_type(1) : DataType::kBool),
        mask_value_(info.since_version() < 12 ? 0 : 1) {}

  // What the input says is not known yet, and it is connected for training.
  static Result<std::unique_ptr<Dropout>> Create(const OpInfo& info) {
    if (info.has_input(2)) return NotSupported("input training_mode; only inference, without it, is offered");
    return std::make_unique<Dropout>(info);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    for (Shape& output : outputs) output.Assign(inputs[0].dims());
    return Status::Ok();
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    if (context.output(0) != context.input(0)) {
      CUDAEP_RETURN_IF_ERROR(
          device::MemcpyAsync(context.output(0), context.input(0), context.inputs[0].bytes(), context.stream()));
    }
    if (plan.outputs.size() < 2 || context.output(1) == nullptr) return Status::Ok();
    const auto bytes = static_cast<int64_t>(StorageBytes(mask_type_, plan.outputs[1].elems()));
    return kernels::LaunchFill(&mask_value_, sizeof(mask_value_), bytes, context.output(1), context.stream());
  }

 private:
  DataType mask_type_;
  uint8_t mask_value_;
};

constexpr DataTypeSet kTypes = kFloatTypes | kFloat8Types;

KernelRow Row(int since, int until, std::vector<TypeConstraint> types) {
  return {.op = "Dropout",
          .since = since,
          .until = until,
          .types = std::move(types),
          .aliases = {{0, 0}},
          .make = Make<Dropout>};
}

const RegisterRows kRows({
    Row(7, 7, {{"T", kFloatTypes}}),
    Row(10, 10, {{"T", kFloatTypes}, {"T1", DataType::kBool}}),
    Row(12, 22, {{"T", kTypes}, {"T1", kTypes}, {"T2", DataType::kBool}}),
});

}  // namespace
}  // namespace cudaep::ops
