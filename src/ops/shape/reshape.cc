#include "core/checked_math.h"
#include "ops/shape/alias_operator.h"
#include "ops/shape/host_ints.h"

namespace cudaep::ops {
namespace {

// The shape that `wanted` asks for: 0 copies the input's dimension (unless `zero_is_zero`), one -1 takes what is left.
Result<Shape> ReshapeTo(Dims dims, Dims wanted, bool zero_is_zero) {
  Shape shape(wanted);
  int unknown = -1;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] < -1) return InvalidArgument("shape ", wanted, " has a dimension below -1");
    if (shape[d] == 0 && !zero_is_zero) {
      if (d >= static_cast<int>(dims.size())) {
        return InvalidArgument("shape ", wanted, " copies dimension ", d, " of an input of shape ", dims);
      }
      shape[d] = dims[static_cast<size_t>(d)];
    }
    if (shape[d] == -1) {
      if (unknown >= 0) return InvalidArgument("shape ", wanted, " has more than one -1");
      unknown = d;
      shape[d] = 1;
    }
  }
  CUDAEP_ASSIGN_OR_RETURN(const int64_t known, CheckedElementCount(shape));
  const int64_t elems = ElementCount(dims);
  if (unknown >= 0) {
    if (known == 0) return InvalidArgument("shape ", wanted, " has both -1 and a dimension of 0");
    if (elems % known != 0) return InvalidArgument("input of shape ", dims, " cannot be reshaped to ", wanted);
    shape[unknown] = elems / known;
  } else if (known != elems) {
    return InvalidArgument("input of shape ", dims, " cannot be reshaped to ", wanted);
  }
  return shape;
}

class Reshape final : public AliasOperator {
 public:
  explicit Reshape(bool zero_is_zero) : zero_is_zero_(zero_is_zero) {}

  static Result<std::unique_ptr<Reshape>> Create(const OpInfo& info) {
    return std::make_unique<Reshape>(info.since_version() >= 14 && info.BoolOr("allowzero", false));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<int64_t> wanted, HostInts(inputs[1], "shape"));
    CUDAEP_ASSIGN_OR_RETURN(outputs[0], ReshapeTo(inputs[0].dims(), wanted, zero_is_zero_));
    return Status::Ok();
  }

 private:
  bool zero_is_zero_;
};

const RegisterRows kRows({
    AliasRow("Reshape", 5, 25, Make<Reshape>, {1}),
});

}  // namespace
}  // namespace cudaep::ops
