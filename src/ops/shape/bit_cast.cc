#include "ops/shape/alias_operator.h"

namespace cudaep::ops {
namespace {

constexpr DataTypeSet kTypes = kernels::kStoredTypes;

class BitCast final : public AliasOperator {
 public:
  static Result<std::unique_ptr<BitCast>> Create(const OpInfo& info) {
    const DataType from = info.input_type(0), to = static_cast<DataType>(info.IntOr("to", 0));
    if (!kTypes.Contains(to)) return NotSupported("to ", DataTypeName(to), " has no fixed size");
    if (BitsOf(from) != BitsOf(to)) {
      return InvalidArgument(DataTypeName(from), " has ", BitsOf(from), " bits and ", DataTypeName(to), " ",
                             BitsOf(to));
    }
    return std::make_unique<BitCast>();
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    outputs[0].Assign(inputs[0].dims());
    return Status::Ok();
  }
};

const RegisterRows kRows({
    {.op = "BitCast",
     .since = 26,
     .until = 26,
     .types = {{"T1", kTypes}, {"T2", kTypes}},
     .aliases = {{0, 0}},
     .make = Make<BitCast>},
});

}  // namespace
}  // namespace cudaep::ops
