#include "ops/shape/alias_operator.h"

namespace cudaep::ops {
namespace {

class Identity final : public AliasOperator {
 public:
  static Result<std::unique_ptr<Identity>> Create(const OpInfo&) { return std::make_unique<Identity>(); }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    outputs[0].Assign(inputs[0].dims());
    return Status::Ok();
  }
};

// From version 14 on the constraint "V" also has sequences and optionals, which stay with the host.
const RegisterRows kRows({
    AliasRow("Identity", 1, 13, Make<Identity>),
    AliasRow("Identity", 14, 25, Make<Identity>, {}, "V"),
});

}  // namespace
}  // namespace cudaep::ops
