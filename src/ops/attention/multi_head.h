// What attention operators have around attention itself: a bias, rotation by position, keys and values appended to a
// cache. Queries, keys and values that need none of it are read where they lie.
#pragma once

#include "ops/attention/attention_step.h"

namespace cudaep::ops {

struct MultiHead {
  kernels::AttentionProblem attention;  // q, k and v: strides of what comes in; y as it goes out
  bool library = false;                 // MayUseLibrary
  int64_t new_keys = 0;                 // rows that come in; attention.keys counts those of the cache too
  bool q_bias = false, kv_bias = false;
  bool norms = false;  // queries and keys, before they are rotated, or behind that
  bool norm_last = false;
  float norm_epsilon = 0;  // kernels::HeadRows
  bool q_rotary = false, k_rotary = false;
  kernels::Rotary rotary = {};

  // Keys and values go to a cache of `capacity` rows, behind `past` ones of a cache of `past_capacity`, or behind
  // lengths[batch] + lengths_add of them where MultiHeadPointers has lengths.
  bool appends = false;
  int64_t past = 0, past_capacity = 0, capacity = 0, lengths_add = 0;
  bool has_present_key = false, has_present_value = false;  // the cache is an output; scratch memory if not
};

struct MultiHeadPointers {
  kernels::AttentionPointers attention;  // q, k and v as they come in
  const void* q_bias = nullptr;
  const void* k_bias = nullptr;
  const void* v_bias = nullptr;
  const void* q_norm = nullptr;
  const void* k_norm = nullptr;
  const void* cos = nullptr;
  const void* sin = nullptr;
  const int64_t* position_ids = nullptr;
  const int32_t* lengths = nullptr;
  const void* past_key = nullptr;  // may be the present one
  const void* past_value = nullptr;
  void* present_key = nullptr;
  void* present_value = nullptr;
};

// The length of the past in a buffer of `capacity` rows that past and present share, from the host value
// past_sequence_length.
Result<int64_t> SharedPastLength(const TensorView& length, int64_t new_rows, int64_t capacity);

// A step of an operator's plan. Threads: immutable after Make.
class MultiHeadStep {
 public:
  // What makes one plan differ from another: sizes, with lengths rounded up. False for a problem that is an error,
  // which is then InferShapes' to say.
  static bool AddKey(const Result<MultiHead>& problem, PlanKey& key);

  // For all problems of the same key. Takes its scratch memory from `plan`.
  static Result<MultiHeadStep> Make(const MultiHead& problem, const PlanContext& context, Plan& plan);
  Status Enqueue(const OpContext& context, const MultiHead& problem, const MultiHeadPointers& at) const;

 private:
  AttentionStep attention_;
  size_t scratch_[3] = {};  // of q, k and v
};

// The plan of an operator that is one such step.
struct MultiHeadPlan : Plan {
  MultiHeadStep step;

  static Result<PlanPtr> Make(const MultiHead& problem, const PlanContext& context);
};

}  // namespace cudaep::ops
