#include "ops/rnn/rnn_place.h"

#include <algorithm>

#include "core/checked_math.h"
#include "ops/optional_input.h"

namespace cudaep::ops {
namespace {

using kernels::RnnCell;

Status CheckShape(TensorViews inputs, int index, const char* name, std::initializer_list<int64_t> wanted) {
  if (!HasInput(inputs, index)) return Status::Ok();
  const Dims dims = inputs[static_cast<size_t>(index)].dims();
  const Shape shape(wanted);
  return SameDims(dims, shape) ? Status::Ok()
                               : InvalidArgument("input ", name, " has shape ", dims, ", expected ", shape.dims());
}

void PlaceStrides(bool batch_first, kernels::RnnShape* s) {
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

}  // namespace

Result<RnnProblem> PlaceRnn(const RnnAttributes& attributes, DataType type, TensorViews inputs, RnnWeights weights) {
  const bool columns = weights == RnnWeights::kColumns;
  const Dims x = inputs[kRnnX].dims(), r = inputs[kRnnR].dims();
  if (x.size() != 3) return InvalidArgument("input X has shape ", x, ", expected three dimensions");
  if (r.size() != 3) return InvalidArgument("input R has shape ", r, ", expected three dimensions");
  RnnProblem problem{.type = type, .cell = attributes.cell, .input = x[2]};
  kernels::RnnShape& s = problem.shape;
  const bool batch_first = attributes.batch_first;
  s.steps = x[batch_first ? 1 : 0], s.batch = x[batch_first ? 0 : 1], s.hidden = r[columns ? 1 : 2];
  s.directions = attributes.directions;
  if (attributes.hidden_size >= 0 && attributes.hidden_size != s.hidden) {
    return InvalidArgument("input R has shape ", r, ", attribute hidden_size is ", attributes.hidden_size);
  }
  const int64_t gates = problem.gates(), d = s.directions, h = s.hidden;
  if (columns) {
    CUDAEP_RETURN_IF_ERROR(CheckShape(inputs, kRnnW, "W", {d, x[2], gates * h}));
    CUDAEP_RETURN_IF_ERROR(CheckShape(inputs, kRnnR, "R", {d, h, gates * h}));
  } else {
    CUDAEP_RETURN_IF_ERROR(CheckShape(inputs, kRnnW, "W", {d, gates * h, x[2]}));
    CUDAEP_RETURN_IF_ERROR(CheckShape(inputs, kRnnR, "R", {d, gates * h, h}));
  }
  CUDAEP_RETURN_IF_ERROR(CheckShape(inputs, kRnnBias, "B", {d, 2 * gates * h}));
  CUDAEP_RETURN_IF_ERROR(CheckShape(inputs, kRnnLengths, "sequence_lens", {s.batch}));
  for (const auto& [index, name] : {std::pair{kRnnInitialH, "initial_h"}, std::pair{kRnnInitialC, "initial_c"}}) {
    CUDAEP_RETURN_IF_ERROR(batch_first ? CheckShape(inputs, index, name, {s.batch, d, h})
                                       : CheckShape(inputs, index, name, {d, s.batch, h}));
  }
  CUDAEP_RETURN_IF_ERROR(CheckShape(inputs, kRnnPeephole, "P", {d, 3 * h}));
  PlaceStrides(batch_first, &s);
  s.reverse[0] = attributes.reverse, s.reverse[1] = true;
  for (int i = 0; i < kernels::kMaxRnnDirections; ++i) {
    std::copy_n(attributes.functions[i], 3, s.functions[i]);
  }
  s.clip = attributes.clip;
  s.input_forget = attributes.input_forget;
  s.linear_before_reset = attributes.linear_before_reset;
  return problem;
}

Status RnnOutputs(const RnnAttributes& attributes, const RnnProblem& problem, std::vector<Shape>& outputs) {
  const kernels::RnnShape& s = problem.shape;
  const bool batch_first = attributes.batch_first;
  for (size_t i = 1; i < outputs.size(); ++i) {
    outputs[i] = batch_first ? Shape{s.batch, s.directions, s.hidden} : Shape{s.directions, s.batch, s.hidden};
  }
  outputs[0] =
      batch_first ? Shape{s.batch, s.steps, s.directions, s.hidden} : Shape{s.steps, s.directions, s.batch, s.hidden};
  return CheckedElementCount(outputs[0]).status();
}

RnnTensors RnnTensorsOf(RnnCell cell, const OpContext& context) {
  const auto input = [&](int index) { return InputAt(context.inputs, index).data; };
  const auto output = [&](size_t index) { return index < context.shapes.size() ? context.outputs[index] : nullptr; };
  const bool is_lstm = cell == RnnCell::kLstm;
  return {.x = input(kRnnX),
          .w = input(kRnnW),
          .r = input(kRnnR),
          .bias = input(kRnnBias),
          .lengths = static_cast<const int32_t*>(input(kRnnLengths)),
          .initial_h = input(kRnnInitialH),
          .initial_c = is_lstm ? input(kRnnInitialC) : nullptr,
          .peephole = is_lstm ? input(kRnnPeephole) : nullptr,
          .y = output(0),
          .y_h = output(1),
          .y_c = is_lstm ? output(2) : nullptr};
}

}  // namespace cudaep::ops
