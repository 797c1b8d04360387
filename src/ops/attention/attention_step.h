// Scaled dot-product attention as a step of an operator's plan, and the rows of heads that are made ready for it.
//
// Every attention operator turns its shapes into a kernels::AttentionProblem and gets its step here: the one place that
// knows which implementations there are: the own kernel (kernels/attention) and a vendor library's
// (attention_library.h).
//
// Lengths only change what a launch is told: a plan is made for rounded ones and serves every call below them, so a
// decoder's tokens and prompts of many lengths share a few.
// Threads: immutable after Make.
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/attention/head_rows.h"
#include "ops/attention/attention_library.h"
#include "ops/operator.h"

namespace cudaep::ops {

class AttentionStep {
 public:
  AttentionStep() = default;
  // For problems that differ from `most` in strides and masks and have at most its queries and keys. Takes its scratch
  // memory from `plan`. `library`: whether a vendor library may do it (MayUseLibrary).
  static Result<AttentionStep> Make(const kernels::AttentionProblem& most, bool library, const PlanContext& context,
                                    Plan& plan);

  Status Enqueue(const OpContext& context, const kernels::AttentionProblem& problem,
                 kernels::AttentionPointers at) const;
  // Whether that copies past keys and values for which `at` has a place (kernels::AttentionPast).
  bool CopiesPast(const OpContext& context, const kernels::AttentionProblem& problem,
                  const kernels::AttentionPointers& at) const;

  // Calls that a vendor library took.
  uint64_t library_calls() const { return library_ == nullptr ? 0 : library_->queued(); }

 private:
  Result<kernels::AttentionPlan> OwnPlan(const OpContext& context, const kernels::AttentionProblem& problem) const;

  size_t scratch_ = 0, own_bytes_ = 0;
  std::unique_ptr<AttentionLibrary> library_;  // null: never; synchronized in itself
};

// Whether a vendor library may do attention of this type in a session with these options. An operator that says so to
// its steps declares cuDNN among its libraries, so that no Run makes a handle.
inline bool MayUseLibrary(const Settings& settings, DataType type) {
  return settings.enable_cudnn && settings.attention_by_cudnn && settings.compiled_engines && !settings.deterministic &&
         kFloat16Types.Contains(type);
}

// Strides of [batch, heads, rows, size], and of [batch, rows, heads * size] where a row has `row_elems` elements
// (0: heads * size).
kernels::AttentionStrides HeadsFirst(int64_t heads, int64_t rows, int64_t size);
kernels::AttentionStrides RowsFirst(int64_t heads, int64_t rows, int64_t size, int64_t row_elems = 0);

// Strides of a tensor that broadcasts to [batch, heads, queries, keys] in every dimension but the last, which may be
// shorter where `shorter` says so: keys behind it are hidden. `what` is its name in the message.
Result<kernels::ScoreStrides> MapScores(Dims dims, Dims scores, bool shorter, std::string_view what);
// The same of a tensor whose batch may also divide that of the scores: it comes again and again, for the windows of one
// image after those of another.
Result<kernels::ScoreStrides> MapRepeatedScores(Dims dims, Dims scores, std::string_view what);

}  // namespace cudaep::ops
