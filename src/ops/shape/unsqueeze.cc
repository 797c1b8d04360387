#include "ops/shape/alias_operator.h"
#include "ops/shape/axes.h"

namespace cudaep::ops {
namespace {

class Unsqueeze final : public AliasOperator {
 public:
  explicit Unsqueeze(Axes axes) : axes_(std::move(axes)) {}

  static Result<std::unique_ptr<Unsqueeze>> Create(const OpInfo& info) {
    return std::make_unique<Unsqueeze>(Axes(info));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const auto axes, axes_.Read(inputs));
    if (!axes) return InvalidArgument("axes are missing");
    const int rank = inputs[0].rank + static_cast<int>(axes->size());
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<bool> added, MarkAxes(*axes, rank, false));
    outputs[0] = Shape(rank, 1);
    const int64_t* dim = inputs[0].dim;
    for (int d = 0; d < rank; ++d) {
      if (!added[static_cast<size_t>(d)]) outputs[0][d] = *dim++;
    }
    return Status::Ok();
  }

 private:
  Axes axes_;
};

const RegisterRows kRows({
    AliasRow("Unsqueeze", 1, 11, Make<Unsqueeze>),
    AliasRow("Unsqueeze", 13, 25, Make<Unsqueeze>, {1}),
});

}  // namespace
}  // namespace cudaep::ops
