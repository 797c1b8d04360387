#include "ops/attention/multi_head.h"

#include "ops/gemm/matrix_product.h"

namespace cudaep::ops {
namespace {

constexpr int64_t kLeastKeys = 64;  // that plans are made for

// Rows that are written before attention reads them.
struct Rows {
  kernels::HeadRows rows;
  bool used = false, to_scratch = false;

  void Place(kernels::AttentionStrides out, bool scratch, kernels::AttentionStrides& read) {
    rows.out = read = out;
    to_scratch = scratch;
  }
  size_t bytes() const {
    return static_cast<size_t>(rows.batch * rows.heads * rows.rows * rows.size) * SizeOf(rows.type);
  }
};

// A problem as its launches.
struct Launches {
  Rows part[3];  // q, k and v
  kernels::AttentionProblem attention;
};

Launches Split(const MultiHead& problem) {
  Launches launches{.part = {}, .attention = problem.attention};
  kernels::AttentionProblem& p = launches.attention;
  const auto rows = [&](int64_t heads, int64_t count, int64_t size, const kernels::AttentionStrides& in) {
    return kernels::HeadRows{
        .type = p.type, .batch = p.batch, .heads = heads, .size = size, .new_rows = count, .rows = count, .in = in};
  };
  auto& [q, k, v] = launches.part;
  q.rows = rows(p.heads, p.queries, p.head_size, p.q);
  k.rows = rows(p.kv_heads, problem.new_keys, p.head_size, p.k);
  v.rows = rows(p.kv_heads, problem.new_keys, p.v_head_size, p.v);
  q.used = problem.q_bias || problem.norms || problem.q_rotary;
  k.used = problem.kv_bias || problem.norms || problem.k_rotary || problem.appends;
  v.used = problem.kv_bias || problem.appends;
  q.rows.norm_epsilon = k.rows.norm_epsilon = problem.norm_epsilon;
  q.rows.norm_last = k.rows.norm_last = problem.norm_last;
  if (problem.q_rotary) q.rows.rotary = problem.rotary;
  if (problem.k_rotary) k.rows.rotary = problem.rotary;

  // Positions without ids follow those in the cache.
  q.rows.past_rows = problem.past;
  q.rows.lengths_add = problem.lengths_add;
  q.rows.target = kernels::RowTarget::kAlone;
  if (q.used) q.Place(RowsFirst(p.heads, p.queries, p.head_size), true, p.q);
  for (Rows* const part : {&k, &v}) {
    if (!part->used) continue;
    const bool key = part == &k;
    kernels::HeadRows& out = part->rows;
    if (problem.appends) {
      out.past_rows = problem.past;
      out.lengths_add = problem.lengths_add;
      out.rows = problem.capacity;
      out.past_capacity = problem.past_capacity;
      out.past = HeadsFirst(p.kv_heads, problem.past_capacity, out.size);
    }
    const bool scratch = !problem.appends || !(key ? problem.has_present_key : problem.has_present_value);
    part->Place(HeadsFirst(p.kv_heads, out.rows, out.size), scratch, key ? p.k : p.v);
  }
  return launches;
}

// The largest problem that shares a plan with this one.
MultiHead Most(const MultiHead& problem) {
  const auto keys = [](int64_t count) { return RowBucket(std::max(count, kLeastKeys)); };
  MultiHead most = problem;
  most.attention.queries = RowBucket(problem.attention.queries);
  most.attention.keys = keys(problem.attention.keys);
  most.new_keys = keys(problem.new_keys);
  most.capacity = keys(problem.capacity);
  return most;
}

}  // namespace

Result<int64_t> SharedPastLength(const TensorView& length, int64_t new_rows, int64_t capacity) {
  if (length.elems() != 1) return InvalidArgument("past_sequence_length ", length.dims(), " must have one element");
  const int64_t past = length.host<int32_t>()[0];
  if (past >= 0 && past + new_rows <= capacity) return past;
  return InvalidArgument("past_sequence_length ", past, " and ", new_rows, " new keys in a buffer of ", capacity);
}

bool MultiHeadStep::AddKey(const Result<MultiHead>& problem, PlanKey& key) {
  if (!problem.ok()) return false;
  const MultiHead most = Most(problem.value());
  const kernels::AttentionProblem& p = most.attention;
  for (const int64_t word : {p.batch, p.heads, p.kv_heads, p.head_size, p.v_head_size, p.queries, p.keys, most.new_keys,
                             most.capacity, int64_t{most.kv_bias}}) {
    key.Add(word);
  }
  return true;
}

Result<MultiHeadStep> MultiHeadStep::Make(const MultiHead& problem, const PlanContext& context, Plan& plan) {
  MultiHeadStep step;
  const Launches launches = Split(Most(problem));
  for (size_t i = 0; i < 3; ++i) {
    const Rows& part = launches.part[i];
    if (part.to_scratch) step.scratch_[i] = plan.AddScratch(part.bytes());
  }
  CUDAEP_ASSIGN_OR_RETURN(step.attention_, AttentionStep::Make(launches.attention, problem.library, context, plan));
  return step;
}

Status MultiHeadStep::Enqueue(const OpContext& context, const MultiHead& problem, const MultiHeadPointers& at) const {
  const Launches launches = Split(problem);
  kernels::AttentionPointers attention = at.attention;
  struct {
    const void* bias;
    const void* norm;
    const void* past;
    void* present;
    const void** read;
  } const of[3] = {{at.q_bias, at.q_norm, nullptr, nullptr, &attention.q},
                   {at.k_bias, at.k_norm, at.past_key, at.present_key, &attention.k},
                   {at.v_bias, nullptr, at.past_value, at.present_value, &attention.v}};
  kernels::HeadRowsPart parts[3];
  size_t count = 0;
  for (size_t i = 0; i < 3; ++i) {
    const Rows& rows = launches.part[i];
    if (!rows.used) continue;
    auto& [problem_of_part, to] = parts[count++];
    problem_of_part = rows.rows;
    to = {.in = *of[i].read,
          .past = of[i].past,
          .out = rows.to_scratch ? context.scratch(scratch_[i]) : of[i].present,
          .bias = of[i].bias,
          .norm = of[i].norm,
          .cos = at.cos,
          .sin = at.sin,
          .position_ids = at.position_ids,
          .lengths = at.lengths};
    if (to.past != nullptr && to.past == to.out) problem_of_part.target = kernels::RowTarget::kInPlace;
    *of[i].read = to.out;
  }
  if (problem.appends) {
    kernels::HeadRowsPart &k = parts[count - 2], &v = parts[count - 1];  // both are written then
    if (kernels::HasWholePast(k) && kernels::HasWholePast(v)) {
      attention.past = {.k = k.at.past,
                        .v = v.at.past,
                        .to_k = k.at.out,
                        .to_v = v.at.out,
                        .k_strides = k.problem.past,
                        .v_strides = v.problem.past,
                        .rows = k.problem.past_rows};
      if (attention_.CopiesPast(context, launches.attention, attention)) {
        k.problem.target = v.problem.target = kernels::RowTarget::kInPlace;
      } else {
        attention.past = {};
      }
    }
  }
  CUDAEP_RETURN_IF_ERROR(kernels::LaunchHeadRows({parts, count}, context.stream()));
  return attention_.Enqueue(context, launches.attention, attention);
}

Result<PlanPtr> MultiHeadPlan::Make(const MultiHead& problem, const PlanContext& context) {
  auto plan = std::make_unique<MultiHeadPlan>();
  CUDAEP_ASSIGN_OR_RETURN(plan->step, MultiHeadStep::Make(problem, context, *plan));
  return PlanPtr(std::move(plan));
}

}  // namespace cudaep::ops
