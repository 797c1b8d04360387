// LSTM, GRU and RNN: every activation, direction and layout, lengths, initial states, peepholes, clip.
#include "ops/registry.h"
#include "ops/rnn/rnn_run.h"

namespace cudaep::ops {
namespace {

using kernels::RnnCell;

enum Input { kX, kW, kR, kBias, kLengths, kInitialH, kInitialC, kPeephole };

Status CheckShape(TensorViews inputs, int index, const char* name, std::initializer_list<int64_t> wanted) {
  const bool given = static_cast<size_t>(index) < inputs.size() && inputs[static_cast<size_t>(index)].present();
  if (!given) return Status::Ok();
  const Dims dims = inputs[static_cast<size_t>(index)].dims();
  const Shape shape(wanted);
  return SameDims(dims, shape) ? Status::Ok()
                               : InvalidArgument("input ", name, " has shape ", dims, ", expected ", shape.dims());
}

class Rnn final : public Operator {
 public:
  static Result<std::unique_ptr<Rnn>> Create(const OpInfo& info, const KernelRow& row) {
    auto op = std::make_unique<Rnn>();
    CUDAEP_ASSIGN_OR_RETURN(op->attributes_, ParseRnn(info, row.VariantAs<RnnCell>()));
    op->type_ = info.input_type(0);
    op->options_ = ProductOptions(info.settings());
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const RnnProblem problem, Place(inputs));
    const kernels::RnnShape& s = problem.shape;
    const bool batch_first = attributes_.batch_first;
    for (size_t i = 1; i < outputs.size(); ++i) {
      outputs[i] = batch_first ? Shape{s.batch, s.directions, s.hidden} : Shape{s.directions, s.batch, s.hidden};
    }
    outputs[0] =
        batch_first ? Shape{s.batch, s.steps, s.directions, s.hidden} : Shape{s.steps, s.directions, s.batch, s.hidden};
    return CheckedElementCount(outputs[0]).status();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    CUDAEP_ASSIGN_OR_RETURN(const RnnProblem problem, Place(context.inputs));
    return PlanRnn(problem, options_, context.runtime);
  }

  LibrarySet libraries() const override { return {.blas = true}; }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const auto input = [&](int index) -> const void* {
      return static_cast<size_t>(index) < context.inputs.size() ? context.input(index) : nullptr;
    };
    const auto output = [&](size_t index) { return index < context.shapes.size() ? context.outputs[index] : nullptr; };
    const bool is_lstm = attributes_.cell == RnnCell::kLstm;
    return EnqueueRnn(PlanAs<RnnRunPlan>(plan), context,
                      {.x = input(kX),
                       .w = input(kW),
                       .r = input(kR),
                       .bias = input(kBias),
                       .lengths = static_cast<const int32_t*>(input(kLengths)),
                       .initial_h = input(kInitialH),
                       .initial_c = is_lstm ? input(kInitialC) : nullptr,
                       .peephole = is_lstm ? input(kPeephole) : nullptr,
                       .y = output(0),
                       .y_h = output(1),
                       .y_c = is_lstm ? output(2) : nullptr});
  }

 private:
  Result<RnnProblem> Place(TensorViews inputs) const {
    const Dims x = inputs[kX].dims(), r = inputs[kR].dims();
    if (x.size() != 3) return InvalidArgument("input X has shape ", x, ", expected three dimensions");
    if (r.size() != 3) return InvalidArgument("input R has shape ", r, ", expected three dimensions");
    RnnProblem problem{.type = type_, .cell = attributes_.cell, .input = x[2]};
    kernels::RnnShape& s = problem.shape;
    const bool batch_first = attributes_.batch_first;
    s.steps = x[batch_first ? 1 : 0], s.batch = x[batch_first ? 0 : 1], s.hidden = r[2];
    s.directions = attributes_.directions;
    if (attributes_.hidden_size >= 0 && attributes_.hidden_size != s.hidden) {
      return InvalidArgument("input R has shape ", r, ", attribute hidden_size is ", attributes_.hidden_size);
    }
    const int64_t gates = problem.gates(), d = s.directions, h = s.hidden;
    CUDAEP_RETURN_IF_ERROR(CheckShape(inputs, kW, "W", {d, gates * h, x[2]}));
    CUDAEP_RETURN_IF_ERROR(CheckShape(inputs, kR, "R", {d, gates * h, h}));
    CUDAEP_RETURN_IF_ERROR(CheckShape(inputs, kBias, "B", {d, 2 * gates * h}));
    CUDAEP_RETURN_IF_ERROR(CheckShape(inputs, kLengths, "sequence_lens", {s.batch}));
    for (const auto& [index, name] : {std::pair{kInitialH, "initial_h"}, std::pair{kInitialC, "initial_c"}}) {
      CUDAEP_RETURN_IF_ERROR(batch_first ? CheckShape(inputs, index, name, {s.batch, d, h})
                                         : CheckShape(inputs, index, name, {d, s.batch, h}));
    }
    CUDAEP_RETURN_IF_ERROR(CheckShape(inputs, kPeephole, "P", {d, 3 * h}));
    PlaceStrides(batch_first, &s);
    s.reverse[0] = attributes_.reverse, s.reverse[1] = true;
    for (int i = 0; i < kernels::kMaxRnnDirections; ++i) {
      std::copy_n(attributes_.functions[i], 3, s.functions[i]);
    }
    s.clip = attributes_.clip;
    s.input_forget = attributes_.input_forget;
    s.linear_before_reset = attributes_.linear_before_reset;
    return problem;
  }

  static void PlaceStrides(bool batch_first, kernels::RnnShape* s) {
    const int64_t d = s->directions, h = s->hidden;
    if (batch_first) {
      s->x_step = 1, s->x_batch = s->steps;
      s->y_batch = s->steps * d * h, s->y_step = d * h, s->y_direction = h;
      s->state_batch = d * h, s->state_direction = h;
    } else {
      s->x_step = s->batch, s->x_batch = 1;
      s->y_step = d * s->batch * h, s->y_direction = s->batch * h, s->y_batch = h;
      s->state_direction = s->batch * h, s->state_batch = h;
    }
  }

  RnnAttributes attributes_;
  DataType type_ = DataType::kFloat;
  ProductOptions options_;
};

KernelRow Row(const char* op, RnnCell cell) {
  return {.op = op,
          .since = 1,
          .until = 22,
          .types = {{"T", kernels::kRnnTypes}, {"T1", DataType::kInt32}},
          .variant = static_cast<int>(cell),
          .make = Make<Rnn>};
}

const RegisterRows kRows({Row("LSTM", RnnCell::kLstm), Row("GRU", RnnCell::kGru), Row("RNN", RnnCell::kRnn)});

}  // namespace
}  // namespace cudaep::ops
