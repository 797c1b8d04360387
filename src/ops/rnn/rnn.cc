// LSTM, GRU and RNN: every activation, direction and layout, lengths, initial states, peepholes, clip.
#include "ops/registry.h"
#include "ops/rnn/rnn_pack.h"
#include "ops/rnn/rnn_place.h"
#include "ops/rnn/rnn_run.h"

namespace cudaep::ops {
namespace {

using kernels::RnnCell;

class Rnn final : public Operator {
 public:
  static Result<std::unique_ptr<Rnn>> Create(const OpInfo& info, const KernelRow& row) {
    auto op = std::make_unique<Rnn>();
    CUDAEP_ASSIGN_OR_RETURN(op->attributes_, ParseRnn(info, row.VariantAs<RnnCell>()));
    op->type_ = info.input_type(0);
    op->options_ = ProductOptions(info.settings());
    op->options_.constant_b = info.is_constant(kRnnW) && info.is_constant(kRnnR);
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const RnnProblem problem, PlaceRnn(attributes_, type_, inputs));
    return RnnOutputs(attributes_, problem, outputs);
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    CUDAEP_ASSIGN_OR_RETURN(const RnnProblem problem, PlaceRnn(attributes_, type_, context.inputs));
    return PlanRnn(problem, options_, context.inputs[kRnnR].packed, context);
  }

  Result<size_t> PackedBytes(int index, const TensorView& weight) const override {
    if (index != kRnnR || weight.rank != 3 || weight.dim[0] != attributes_.directions) return size_t{0};
    const RnnProblem problem = Recurrence(weight);
    if (weight.dim[1] != problem.gates() * weight.dim[2] || !TakesPackedWeights(problem, options_)) return size_t{0};
    return PackedOffset(problem, PartsOf(problem).size());
  }

  Status Pack(int, const TensorView& weight, void* packed, StreamContext& runtime) const override {
    return PackRecurrent(Recurrence(weight), weight.data, packed, runtime.stream());
  }

  LibrarySet libraries() const override { return {.blas = true}; }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return EnqueueRnn(PlanAs<RnnRunPlan>(plan), context, RnnTensorsOf(attributes_.cell, context));
  }

 private:
  // What of the problem the recurrent weights tell.
  RnnProblem Recurrence(const TensorView& r) const {
    RnnProblem problem{.type = type_, .cell = attributes_.cell};
    problem.shape.directions = attributes_.directions;
    problem.shape.hidden = r.dim[2];
    problem.shape.linear_before_reset = attributes_.linear_before_reset;
    return problem;
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
