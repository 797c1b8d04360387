#include "ops/shape/alias_operator.h"

namespace cudaep::ops {
namespace {

class Flatten final : public AliasOperator {
 public:
  explicit Flatten(int64_t axis) : axis_(axis) {}

  static Result<std::unique_ptr<Flatten>> Create(const OpInfo& info) {
    return std::make_unique<Flatten>(info.IntOr("axis", 1));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims dims = inputs[0].dims();
    const int64_t rank = inputs[0].rank;
    if (axis_ < -rank || axis_ > rank) {
      return InvalidArgument("axis ", axis_, " is outside [", -rank, ", ", rank, "]");
    }
    const auto axis = static_cast<size_t>(axis_ < 0 ? axis_ + rank : axis_);
    CUDAEP_ASSIGN_OR_RETURN(const int64_t before, CheckedElementCount(dims.first(axis)));
    CUDAEP_ASSIGN_OR_RETURN(const int64_t after, CheckedElementCount(dims.subspan(axis)));
    outputs[0] = Shape{before, after};
    return Status::Ok();
  }

 private:
  int64_t axis_;
};

const RegisterRows kRows({AliasRow("Flatten", 1, 25, Make<Flatten>)});

}  // namespace
}  // namespace cudaep::ops
