#include "ops/attention/attention_step.h"

namespace cudaep::ops {

Result<AttentionStep> AttentionStep::Make(const kernels::AttentionProblem& most, bool library,
                                          const PlanContext& context, Plan& plan) {
  AttentionStep step;
  CUDAEP_ASSIGN_OR_RETURN(const kernels::AttentionPlan own, kernels::PlanAttention(most, context.device));
  step.own_bytes_ = own.scratch_bytes;
  size_t bytes = step.own_bytes_;
  if (library && AttentionLibrary::MaySuit(most, context.device)) {
    step.library_ = std::make_unique<AttentionLibrary>();
    bytes = std::max(bytes, AttentionLibrary::kWorkspaceBytes);
    plan.settled = false;
  }
  if (bytes != 0) step.scratch_ = plan.AddScratch(bytes);
  return step;
}

Status AttentionStep::Enqueue(const OpContext& context, const kernels::AttentionProblem& problem,
                              kernels::AttentionPointers at) const {
  at.scratch = context.scratch(scratch_);
  if (library_ != nullptr) {
    CUDAEP_ASSIGN_OR_RETURN(const bool queued, library_->Enqueue(context, problem, at));
    if (queued) return Status::Ok();
  }
  CUDAEP_ASSIGN_OR_RETURN(const kernels::AttentionPlan own, OwnPlan(context, problem));
  return kernels::LaunchAttention(own, at, context.stream());
}

Result<kernels::AttentionPlan> AttentionStep::OwnPlan(const OpContext& context,
                                                      const kernels::AttentionProblem& problem) const {
  CUDAEP_ASSIGN_OR_RETURN(kernels::AttentionPlan own, kernels::PlanAttention(problem, context.runtime.device_info()));
  kernels::FitScratch(own, own_bytes_);
  return own;
}

bool AttentionStep::CopiesPast(const OpContext& context, const kernels::AttentionProblem& problem,
                               const kernels::AttentionPointers& at) const {
  if (library_ != nullptr) return false;
  const Result<kernels::AttentionPlan> own = OwnPlan(context, problem);
  return own.ok() && kernels::CopiesPast(own.value(), at);
}

kernels::AttentionStrides HeadsFirst(int64_t heads, int64_t rows, int64_t size) {
  return {.batch = heads * rows * size, .head = rows * size, .row = size};
}

kernels::AttentionStrides RowsFirst(int64_t heads, int64_t rows, int64_t size, int64_t row_elems) {
  const int64_t row = row_elems == 0 ? heads * size : row_elems;
  return {.batch = rows * row, .head = size, .row = row};
}

Result<kernels::ScoreStrides> MapScores(Dims dims, Dims scores, bool shorter, std::string_view what) {
  const auto refuse = [&] { return InvalidArgument(what, " ", dims, " does not broadcast to the scores ", scores); };
  if (dims.size() > scores.size() || dims.empty()) return refuse();
  int64_t stride[4] = {}, next = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t dim = dims[dims.size() - 1 - i], wanted = scores[scores.size() - 1 - i];
    const bool fits = dim == wanted || (i == 0 && shorter ? dim < wanted : dim == 1);
    if (!fits) return refuse();
    const bool repeats = dim == 1 && !(i == 0 && shorter);
    stride[3 - i] = repeats ? 0 : next;
    next *= dim;
  }
  return kernels::ScoreStrides{.batch = stride[0],
                               .head = stride[1],
                               .query = stride[2],
                               .key = stride[3],
                               .keys = shorter ? dims.back() : scores.back()};
}

Result<kernels::ScoreStrides> MapRepeatedScores(Dims dims, Dims scores, std::string_view what) {
  const bool repeats = dims.size() == 4 && dims[0] > 1 && scores[0] != dims[0] && scores[0] % dims[0] == 0;
  if (!repeats) return MapScores(dims, scores, false, what);
  Shape once(scores);
  once[0] = dims[0];
  CUDAEP_ASSIGN_OR_RETURN(kernels::ScoreStrides strides, MapScores(dims, once, false, what));
  strides.batches = dims[0];
  return strides;
}

}  // namespace cudaep::ops
