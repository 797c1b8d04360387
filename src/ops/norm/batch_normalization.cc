// BatchNormalization for inference. Training, a different operator under the same name, is refused.
#include "kernels/norm/batch_norm.h"
#include "ops/image_layout.h"

namespace cudaep::ops {
namespace {

class BatchNorm : public Operator {
 public:
  explicit BatchNorm(const OpInfo& info)
      : type_(info.input_type(0)),
        scale_type_(info.input_type(1)),
        statistics_type_(info.input_type(3)),
        channels_last_(info.domain() == kNhwcDomain),
        spatial_(info.BoolOr("spatial", true)),
        epsilon_(info.FloatOr("epsilon", 1e-5f)) {}

  static Result<std::unique_ptr<BatchNorm>> Create(const OpInfo& info) {
    if (info.BoolOr("training_mode", false)) return NotSupported("training_mode 1; only inference is offered");
    for (int i = 1; i < info.output_count(); ++i) {
      if (info.has_output(i)) return NotSupported("output ", i, " (statistics of training); only inference is offered");
    }
    return std::make_unique<BatchNorm>(info);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims x = inputs[0].dims();
    if (x.empty()) return InvalidArgument("input must have at least one dimension");
    const Dims expected = ParameterDims(x);
    for (size_t i = 1; i < 5; ++i) {
      const Dims dims = inputs[i].dims();
      if (dims.size() != expected.size() || !SameDims(dims, expected)) {
        return InvalidArgument("input ", i, " has shape ", dims, ", expected ", expected, " for input ", x);
      }
    }
    for (Shape& shape : outputs) shape.Assign(expected);
    outputs[0].Assign(x);
    return Status::Ok();
  }

  Status Enqueue(const Plan&, const OpContext& context) const override {
    const Dims x = context.inputs[0].dims(), parameters = ParameterDims(x);
    const int64_t channels = ElementCount(parameters);
    // The spatial dimensions lie inside the channels, unless those come last or every position is a channel.
    const bool inside = spatial_ && !channels_last_ && x.size() > 2;
    return kernels::LaunchBatchNorm({.type = type_,
                                     .scale_type = scale_type_,
                                     .statistics_type = statistics_type_,
                                     .x = context.input(0),
                                     .scale = context.input(1),
                                     .bias = context.input(2),
                                     .mean = context.input(3),
                                     .variance = context.input(4),
                                     .y = context.output(0),
                                     .elems = ElementCount(x),
                                     .inner = inside ? ElementCount(x.subspan(2)) : 1,
                                     .channels = channels,
                                     .epsilon = epsilon_},
                                    context.stream());
  }

 private:
  // One parameter a channel, or one for every position of a sample without `spatial`. A vector has one channel.
  Dims ParameterDims(Dims x) const {
    static constexpr int64_t kOneChannel[] = {1};
    if (x.size() == 1) return kOneChannel;
    if (!spatial_) return x.subspan(1);
    return channels_last_ ? x.last(1) : x.subspan(1, 1);
  }

  DataType type_, scale_type_, statistics_type_;
  bool channels_last_, spatial_;
  double epsilon_;
};

std::vector<KernelRow> Rows() {
  std::vector<KernelRow> rows;
  constexpr DataTypeSet kTypes = kernels::kBatchNormTypes;
  const auto add = [&](int since, int until, std::vector<TypeConstraint> types) {
    rows.push_back({.op = "BatchNormalization",
                    .since = since,
                    .until = until,
                    .types = std::move(types),
                    .in_place = {{0, 0}},
                    .make = Make<BatchNorm>});
  };
  add(7, 9, {{"T", kTypes}});
  add(14, 14, {{"T", kTypes}, {"U", kTypes}});
  add(15, 15, {{"T", kTypes}, {"T1", kTypes}, {"T2", kTypes}});
  return InBothLayouts(std::move(rows));
}

const RegisterRows kRows(Rows());

}  // namespace
}  // namespace cudaep::ops
