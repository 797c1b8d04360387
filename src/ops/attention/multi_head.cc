#include "ops/attention/multi_head.h"

namespace cudaep::ops {

Result<MultiHeadStep> MultiHeadStep::Make(const MultiHead& problem, const PlanContext& context, Plan& plan) {
  MultiHeadStep step;
  kernels::AttentionProblem p = problem.attention;
  const auto rows = [&](int64_t heads, int64_t count, int64_t size, const kernels::AttentionStrides& in) {
    return kernels::HeadRows{
        .type = p.type, .batch = p.batch, .heads = heads, .size = size, .new_rows = count, .rows = count, .in = in};
  };
  step.q_.rows = rows(p.heads, p.queries, p.head_size, p.q);
  step.k_.rows = rows(p.kv_heads, problem.new_keys, p.head_size, p.k);
  step.v_.rows = rows(p.kv_heads, problem.new_keys, p.v_head_size, p.v);
  step.q_.used = problem.q_bias || problem.q_rotary;
  step.k_.used = problem.kv_bias || problem.k_rotary || problem.appends;
  step.v_.used = problem.kv_bias || problem.appends;
  if (problem.q_rotary) step.q_.rows.rotary = problem.rotary;
  if (problem.k_rotary) step.k_.rows.rotary = problem.rotary;

  // Positions without ids follow those in the cache.
  step.q_.rows.past_rows = problem.past;
  step.q_.rows.lengths_add = problem.lengths_add;
  step.q_.rows.target = kernels::RowTarget::kAlone;
  if (step.q_.used) p.q = Place(step.q_, RowsFirst(p.heads, p.queries, p.head_size), true, plan);
  for (Rows* const part : {&step.k_, &step.v_}) {
    if (!part->used) continue;
    const bool key = part == &step.k_;
    kernels::HeadRows& out = part->rows;
    if (problem.appends) {
      out.past_rows = problem.past;
      out.lengths_add = problem.lengths_add;
      out.rows = problem.capacity;
      out.past_capacity = problem.past_capacity;
      out.past = HeadsFirst(p.kv_heads, problem.past_capacity, out.size);
    }
    const bool to_scratch = !problem.appends || !(key ? problem.has_present_key : problem.has_present_value);
    (key ? p.k : p.v) = Place(*part, HeadsFirst(p.kv_heads, out.rows, out.size), to_scratch, plan);
  }
  CUDAEP_ASSIGN_OR_RETURN(step.attention_, AttentionStep::Make(p, context, plan));
  return step;
}

kernels::AttentionStrides MultiHeadStep::Place(Rows& rows, kernels::AttentionStrides out, bool to_scratch, Plan& plan) {
  rows.rows.out = out;
  rows.to_scratch = to_scratch;
  if (to_scratch) {
    const int64_t elems = rows.rows.batch * rows.rows.heads * rows.rows.rows * rows.rows.size;
    rows.scratch = plan.AddScratch(static_cast<size_t>(elems) * SizeOf(rows.rows.type));
  }
  return out;
}

Status MultiHeadStep::Write(const OpContext& context, const Rows& rows, kernels::HeadRowsPointers at,
                            const void** written) const {
  if (!rows.used) return Status::Ok();
  if (rows.to_scratch) at.out = context.scratch(rows.scratch);
  *written = at.out;
  kernels::HeadRows problem = rows.rows;
  if (at.past != nullptr && at.past == at.out) problem.target = kernels::RowTarget::kInPlace;
  return kernels::LaunchHeadRows(problem, at, context.stream());
}

Status MultiHeadStep::Enqueue(const OpContext& context, const MultiHeadPointers& at) const {
  kernels::AttentionPointers attention = at.attention;
  kernels::HeadRowsPointers rows{.cos = at.cos, .sin = at.sin, .position_ids = at.position_ids, .lengths = at.lengths};
  rows.in = at.attention.q;
  rows.bias = at.q_bias;
  CUDAEP_RETURN_IF_ERROR(Write(context, q_, rows, &attention.q));
  rows.in = at.attention.k;
  rows.bias = at.k_bias;
  rows.past = at.past_key;
  rows.out = at.present_key;
  CUDAEP_RETURN_IF_ERROR(Write(context, k_, rows, &attention.k));
  rows.in = at.attention.v;
  rows.bias = at.v_bias;
  rows.past = at.past_value;
  rows.out = at.present_value;
  CUDAEP_RETURN_IF_ERROR(Write(context, v_, rows, &attention.v));
  return attention_.Enqueue(context, attention);
}

}  // namespace cudaep::ops
