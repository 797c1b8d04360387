// ConstantOfShape: one value, repeated over a shape that is read on the host.
#include "kernels/movement/fill.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

constexpr DataTypeSet kFillTypes = (kAnySizedTypes - DataTypeSet{DataType::kComplex64, DataType::kComplex128}) |
                                   kSubByteTypes | DataTypeSet(DataType::kFloat8E8M0);

class ConstantOfShape final : public Operator {
 public:
  explicit ConstantOfShape(HostTensor value) : type_(value.type), element_(std::move(value.data)) {}

  // Without a value: a float 0.
  static Result<std::unique_ptr<ConstantOfShape>> Create(const OpInfo& info) {
    HostTensor value{.type = DataType::kFloat, .dims = Shape{1}, .data = std::vector<std::byte>(sizeof(float))};
    if (std::optional<HostTensor> given = info.Tensor("value")) value = std::move(*given);
    if (value.dims.elems() != 1) {
      return InvalidArgument("attribute value has shape ", value.dims.dims(), ", expected one element");
    }
    if (!kFillTypes.Contains(value.type)) return NotSupported("element type ", DataTypeName(value.type));
    // Elements that share a byte are filled by whole bytes.
    if (const int bits = BitsOf(value.type); bits < 8) {
      auto pattern = static_cast<unsigned>(value.data[0]) & ((1u << bits) - 1u);
      for (int width = bits; width < 8; width *= 2) pattern |= pattern << width;
      value.data[0] = static_cast<std::byte>(pattern);
    }
    return std::make_unique<ConstantOfShape>(std::move(value));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    if (inputs[0].rank != 1) return InvalidArgument("shape has dimensions ", inputs[0].dims(), ", expected a vector");
    outputs[0] = Shape(Dims(inputs[0].host<int64_t>()));
    for (const int64_t dim : outputs[0].dims()) {
      if (dim < 0) return InvalidArgument("shape ", outputs[0].dims(), " has a negative dimension");
    }
    return Status::Ok();
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const size_t bytes = StorageBytes(type_, plan.outputs[0].elems());
    return kernels::LaunchFill(element_.data(), element_.size(), static_cast<int64_t>(bytes / element_.size()),
                               context.output(0), context.stream());
  }

 private:
  DataType type_;
  std::vector<std::byte> element_;
};

const RegisterRows kRows({
    {.op = "ConstantOfShape",
     .since = 9,
     .until = 25,
     .types = {{"T1", DataType::kInt64}, {"T2", kFillTypes}},
     .host_inputs = {0},
     .make = Make<ConstantOfShape>},
});

}  // namespace
}  // namespace cudaep::ops
