#include "ops/shape/alias_operator.h"
#include "ops/shape/axes.h"

namespace cudaep::ops {
namespace {

class Squeeze final : public AliasOperator {
 public:
  explicit Squeeze(Axes axes) : axes_(std::move(axes)) {}

  static Result<std::unique_ptr<Squeeze>> Create(const OpInfo& info) { return std::make_unique<Squeeze>(Axes(info)); }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims dims = inputs[0].dims();
    CUDAEP_ASSIGN_OR_RETURN(const auto axes, axes_.Read(inputs));
    std::vector<bool> drop(dims.size());
    if (axes) {
      CUDAEP_ASSIGN_OR_RETURN(drop, MarkAxes(*axes, inputs[0].rank, true));
    } else {
      std::transform(dims.begin(), dims.end(), drop.begin(), [](int64_t dim) { return dim == 1; });
    }
    std::vector<int64_t> kept;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (!drop[d]) {
        kept.push_back(dims[d]);
      } else if (dims[d] != 1) {
        return InvalidArgument("axis ", d, " of shape ", dims, " is not 1 and cannot be squeezed");
      }
    }
    outputs[0].Assign(kept);
    return Status::Ok();
  }

 private:
  Axes axes_;
};

const RegisterRows kRows({
    AliasRow("Squeeze", 1, 11, Make<Squeeze>),
    AliasRow("Squeeze", 13, 25, Make<Squeeze>, {1}),
});

}  // namespace
}  // namespace cudaep::ops
