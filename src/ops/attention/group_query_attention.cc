// com.microsoft's GroupQueryAttention: queries in groups that share keys, rotation, and a cache that past and present
// may share. How many keys a batch entry has is known on the device only (seqlens_k, one less than that); the largest
// of them is a host value.
//
// With q_norm_weight and k_norm_weight each head of queries and keys is divided by its root mean square before it is
// rotated; the CPU provider has no such thing. A first prompt (as many queries as keys) starts at position 0 whatever
// its length; what lies behind an entry's length is padding, whose rows of the result mean nothing. The numerics are
// the CPU provider's.
#include <cmath>

#include "ops/attention/multi_head.h"
#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input : int {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kLengths,
  kTotalLength,
  kCos,
  kSin,
  kPositions,
  kScoreBias,
  kSink,
  kKeyScale,
  kValueScale,
  kQueryNorm,
  kKeyNorm,
};
enum Output : int { kResult, kPresentKey, kPresentValue, kScores };

struct Sizes {
  int64_t batch = 0, queries = 0, head_size = 0;
  int64_t total = 0, past_capacity = 0, capacity = 0;
  int64_t row = 0;  // elements of a row of queries

  bool prompt() const { return total == queries; }
};

class GroupQueryAttention final : public Operator {
 public:
  static Result<std::unique_ptr<GroupQueryAttention>> Create(const OpInfo& info) {
    auto op = std::make_unique<GroupQueryAttention>();
    op->type_ = info.input_type(kQuery);
    op->heads_ = info.IntOr("num_heads", 0);
    op->kv_heads_ = info.IntOr("kv_num_heads", 0);
    op->library_ = MayUseLibrary(info.settings(), op->type_) && !info.has_input(kSink);
    if (op->heads_ <= 0 || op->kv_heads_ <= 0 || op->heads_ % op->kv_heads_ != 0) {
      return InvalidArgument("num_heads ", op->heads_, " must be a multiple of kv_num_heads ", op->kv_heads_);
    }
    CUDAEP_RETURN_IF_ERROR(RefuseForms(info));
    op->packed_ = !info.has_input(kKey);
    if (op->packed_ != !info.has_input(kValue)) return InvalidArgument("key and value come together");
    if (info.has_input(kPastKey) != info.has_input(kPastValue)) {
      return InvalidArgument("past_key and past_value come together");
    }
    op->norms_ = info.has_input(kQueryNorm);
    if (op->norms_ != info.has_input(kKeyNorm)) {
      return InvalidArgument("q_norm_weight and k_norm_weight come together");
    }
    op->norm_epsilon_ = info.FloatOr("qk_norm_epsilon", 1e-6f);
    op->rotates_ = info.BoolOr("do_rotary", false);
    op->interleaved_ = info.BoolOr("rotary_interleaved", false);
    if (op->rotates_ && !(info.has_input(kCos) && info.has_input(kSin))) {
      return InvalidArgument("do_rotary needs cos_cache and sin_cache");
    }
    op->scale_ = info.FloatOr("scale", 0.0f);
    op->smooth_ = info.IntOr("smooth_softmax", 0) > 0;  // the schema's default is -1
    for (int i = 0; i < 2; ++i) op->has_present_[i] = info.has_output(kPresentKey + i);
    CUDAEP_RETURN_IF_ERROR(op->ReadScores(info));
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const Sizes s, Measure(inputs));
    CUDAEP_RETURN_IF_ERROR(Problem(inputs, s).status());
    const Shape present{s.batch, kv_heads_, s.capacity, s.head_size};
    outputs[kResult] = {s.batch, s.queries, heads_ * s.head_size};
    for (size_t i = kPresentKey; i < outputs.size() && i <= kPresentValue; ++i) outputs[i] = present;
    if (outputs.size() > kScores) outputs[kScores] = {s.batch, heads_, s.queries, s.total};
    return Status::Ok();
  }

  bool MakePlanKey(TensorViews inputs, PlanKey& key) const override {
    Result<Sizes> s = Measure(inputs);
    return s.ok() && MultiHeadStep::AddKey(Problem(inputs, *s), key);
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    CUDAEP_ASSIGN_OR_RETURN(const Sizes s, Measure(context.inputs));
    CUDAEP_ASSIGN_OR_RETURN(const MultiHead problem, Problem(context.inputs, s));
    return MultiHeadPlan::Make(problem, context);
  }

  LibrarySet libraries() const override { return {.dnn = library_}; }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    CUDAEP_ASSIGN_OR_RETURN(const Sizes s, Measure(context.inputs));
    CUDAEP_ASSIGN_OR_RETURN(const MultiHead problem, Problem(context.inputs, s));
    const auto input = [&](int index) {
      return HasInput(context.inputs, index) ? context.input<std::byte>(index) : nullptr;
    };
    const auto* const lengths = context.input<int32_t>(kLengths);
    // Heads of queries, keys and values lie one after another in a packed row.
    const size_t head_bytes = static_cast<size_t>(s.head_size) * SizeOf(type_);
    const size_t k_offset = static_cast<size_t>(heads_) * head_bytes;
    const size_t v_offset = k_offset + static_cast<size_t>(kv_heads_) * head_bytes;
    const kernels::AttentionPointers attention{.q = input(kQuery),
                                               .k = packed_ ? input(kQuery) + k_offset : input(kKey),
                                               .v = packed_ ? input(kQuery) + v_offset : input(kValue),
                                               .y = context.output(kResult),
                                               .bias = input(kScoreBias),
                                               .key_end = lengths,
                                               .sink = input(kSink),
                                               .zero_sink = smooth_ && input(kSink) == nullptr,
                                               .scores = has_scores_ ? context.output(kScores) : nullptr};
    const MultiHeadPointers at{.attention = attention,
                               .q_norm = input(kQueryNorm),
                               .k_norm = input(kKeyNorm),
                               .cos = input(kCos),
                               .sin = input(kSin),
                               .position_ids = reinterpret_cast<const int64_t*>(input(kPositions)),
                               .lengths = s.prompt() ? nullptr : lengths,
                               .past_key = input(kPastKey),
                               .past_value = input(kPastValue),
                               .present_key = has_present_[0] ? context.output(kPresentKey) : nullptr,
                               .present_value = has_present_[1] ? context.output(kPresentValue) : nullptr};
    return PlanAs<MultiHeadPlan>(base).step.Enqueue(context, problem, at);
  }

 private:
  static Status RefuseForms(const OpInfo& info) {
    for (const char* attribute : {"k_quant_type", "v_quant_type"}) {
      const std::string quantized = info.StringOr(attribute, "NONE");
      if (quantized != "NONE") return NotSupported(attribute, " ", quantized, ": a cache of quantised numbers");
    }
    if (info.has_input(kKeyScale) || info.has_input(kValueScale)) {
      return NotSupported("k_scale and v_scale: a cache of quantised numbers");
    }
    for (const int index : {static_cast<int>(kPastKey), static_cast<int>(kPastValue)}) {
      if (info.has_input(index) && info.input_type(index) != info.input_type(kQuery)) {
        return NotSupported("a cache of ", DataTypeName(info.input_type(index)), " beside queries of ",
                            DataTypeName(info.input_type(kQuery)));
      }
    }
    if (info.BoolOr("sliding_window_cache", false)) return NotSupported("sliding_window_cache, which drops old keys");
    return Status::Ok();
  }

  Status ReadScores(const OpInfo& info) {
    kernels::AttentionProblem& p = problem_;
    p.type = type_;
    p.softcap = info.FloatOr("softcap", 0.0f);
    if (p.softcap < 0) return InvalidArgument("softcap ", p.softcap, " is negative");
    const int64_t window = info.IntOr("local_window_size", -1);
    const bool causal = info.BoolOr("causal", true);
    if (window == 0 || window < -1) return InvalidArgument("local_window_size ", window, " is neither -1 nor > 0");
    if (window > 0 && !causal) return InvalidArgument("local_window_size ", window, " without causal");
    if (causal) p.right = 0;
    if (window > 0) p.left = std::min(p.left, window - 1);
    const int64_t mode = info.IntOr("qk_output", 0);
    has_scores_ = info.has_output(kScores);
    if (mode < 0 || mode > 2) return InvalidArgument("qk_output ", mode, " is not 0, 1 or 2");
    if (has_scores_ != (mode != 0)) return InvalidArgument("qk_output ", mode, " and the output output_qk");
    if (mode == 1) p.scores = kernels::AttentionScores::kMasked;
    if (mode == 2) p.scores = kernels::AttentionScores::kProbabilities;
    p.zero_hidden_scores = true;
    return Status::Ok();
  }

  Result<Sizes> Measure(TensorViews inputs) const {
    const Dims q = inputs[kQuery].dims();
    Sizes s;
    const int64_t heads = packed_ ? heads_ + 2 * kv_heads_ : heads_;
    if (q.size() != 3 || q[2] % heads != 0 || q[2] == 0) {
      return InvalidArgument("query ", q, " must be [batch,rows,hidden] of ", heads, " heads");
    }
    s.batch = q[0], s.queries = q[1], s.row = q[2];
    s.head_size = q[2] / heads;
    if (!packed_) {
      const Shape wanted{s.batch, s.queries, kv_heads_ * s.head_size};
      if (!SameDims(inputs[kKey].dims(), wanted) || !SameDims(inputs[kValue].dims(), wanted)) {
        return InvalidArgument("key ", inputs[kKey].dims(), " and value ", inputs[kValue].dims(), " must be ",
                               wanted.dims());
      }
    }
    if (inputs[kLengths].elems() != s.batch) {
      return InvalidArgument("seqlens_k ", inputs[kLengths].dims(), " of a batch of ", s.batch);
    }
    if (HasInput(inputs, kPastKey)) {
      const Dims key = inputs[kPastKey].dims(), value = inputs[kPastValue].dims();
      s.past_capacity = key.size() == 4 ? key[2] : 0;
      if (key.size() != 4 || !SameDims(key, Shape{s.batch, kv_heads_, s.past_capacity, s.head_size}) ||
          !SameDims(key, value)) {
        return InvalidArgument("past_key ", key, " and past_value ", value, " do not fit ", kv_heads_, " heads of ",
                               s.head_size);
      }
    }
    const TensorView& total = inputs[kTotalLength];
    if (total.elems() != 1) return InvalidArgument("total_sequence_length ", total.dims(), " must have one element");
    s.total = total.host<int32_t>()[0];
    if (s.total < s.queries || s.total > s.past_capacity + s.queries) {
      return InvalidArgument("total_sequence_length ", s.total, " of ", s.queries, " new keys and a cache of ",
                             s.past_capacity);
    }
    s.capacity = std::max(s.total, s.past_capacity);
    return s;
  }

  Result<MultiHead> Problem(TensorViews inputs, const Sizes& s) const {
    MultiHead problem;
    kernels::AttentionProblem p = problem_;
    p.batch = s.batch, p.heads = heads_, p.kv_heads = kv_heads_;
    p.queries = s.queries, p.keys = s.total;
    p.head_size = p.v_head_size = s.head_size;
    p.q = RowsFirst(heads_, s.queries, s.head_size, s.row);
    p.k = p.v = RowsFirst(kv_heads_, s.queries, s.head_size, packed_ ? s.row : 0);
    p.y = RowsFirst(heads_, s.queries, s.head_size);
    p.scale = scale_ != 0 ? static_cast<double>(scale_) : 1.0 / std::sqrt(static_cast<double>(s.head_size));
    p.key_end_type = DataType::kInt32;
    p.key_end_add = 1;
    p.from_end = !s.prompt();
    if (HasInput(inputs, kScoreBias)) {
      p.bias = true;
      CUDAEP_ASSIGN_OR_RETURN(
          p.bias_strides,
          MapScores(inputs[kScoreBias].dims(), Shape{s.batch, heads_, s.queries, s.total}, false, "attention_bias"));
    }
    if (HasInput(inputs, kSink) && !SameDims(inputs[kSink].dims(), Shape{heads_})) {
      return InvalidArgument("head_sink ", inputs[kSink].dims(), " of ", heads_, " heads");
    }
    for (const Input index : {kQueryNorm, kKeyNorm}) {
      if (norms_ && !SameDims(inputs[index].dims(), Shape{s.head_size})) {
        return InvalidArgument(index == kQueryNorm ? "q_norm_weight " : "k_norm_weight ", inputs[index].dims(),
                               " for heads of ", s.head_size);
      }
    }
    problem.norms = norms_;
    problem.norm_epsilon = norm_epsilon_;
    if (rotates_) CUDAEP_RETURN_IF_ERROR(PlaceRotary(inputs, s, problem));
    problem.attention = p;
    problem.library = library_;
    problem.new_keys = s.queries;
    problem.appends = true;
    problem.past_capacity = s.past_capacity;
    problem.capacity = s.capacity;
    problem.lengths_add = 1 - s.queries;
    problem.has_present_key = has_present_[0];
    problem.has_present_value = has_present_[1];
    return problem;
  }

  // Of a first prompt only the first position id counts.
  Status PlaceRotary(TensorViews inputs, const Sizes& s, MultiHead& problem) const {
    const Dims cos = inputs[kCos].dims(), sin = inputs[kSin].dims();
    if (cos.size() != 2 || !SameDims(cos, sin) || cos[1] == 0 || 2 * cos[1] > s.head_size) {
      return InvalidArgument("cos_cache ", cos, " and sin_cache ", sin, " do not fit heads of ", s.head_size);
    }
    problem.q_rotary = problem.k_rotary = true;
    kernels::Rotary& rotary = problem.rotary;
    rotary.dim = 2 * cos[1];
    rotary.interleaved = interleaved_;
    rotary.cache_rows = cos[0];
    if (!HasInput(inputs, kPositions)) return Status::Ok();
    const Dims ids = inputs[kPositions].dims();
    if (!SameDims(ids, Shape{s.batch, s.queries})) {
      return InvalidArgument("position_ids ", ids, " must be [", s.batch, ",", s.queries, "]");
    }
    rotary.ids = true;
    rotary.offset_ids = s.prompt();
    rotary.ids_batch_stride = s.queries;
    return Status::Ok();
  }

  DataType type_ = DataType::kFloat;
  int64_t heads_ = 0, kv_heads_ = 0;
  float scale_ = 0, norm_epsilon_ = 0;
  bool norms_ = false, packed_ = false, rotates_ = false, interleaved_ = false, smooth_ = false, has_scores_ = false,
       library_ = false;
  bool has_present_[2] = {};
  kernels::AttentionProblem problem_;  // what attributes say
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "GroupQueryAttention",
     .types = {{"T", kFloatTypesNoDouble}, {"M", DataType::kInt32}},
     .host_inputs = {kTotalLength},
     .in_place = {{kPastKey, kPresentKey}, {kPastValue, kPresentValue}},
     .make = Make<GroupQueryAttention>},
});

}  // namespace
}  // namespace cudaep::ops
