// Attention of compiled regions with what decoders have around it, in at most two launches: queries and keys are
// normalised and rotated, with "norm_last" in that order turned round, keys and values appended to past ones.
//
// Queries, keys and values are [batch, rows, heads, size] or [batch, rows, heads * size]; without keys and values the
// first input is all three side by side, [batch, rows, (heads + kv_heads) * size + kv_heads * v_size], or, with
// "packed_by_head", those of each head, [batch, rows, heads, 2 * size + v_size]. Past and present are heads first. With
// "mask_repeats" the mask may be of fewer batch entries, which come again and again. The result is [batch, rows, heads
// * v_size], with "heads_apart" [batch, rows, heads, v_size]. Pairs that are rotated are neighbours with
// "rotary_interleaved".
#include <cmath>

#include "ops/attention/multi_head.h"
#include "ops/attention/rotary_caches.h"
#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input : int { kQuery, kKey, kValue, kMask, kPastKey, kPastValue, kCos, kSin, kQueryNorm, kKeyNorm };
enum Output : int { kResult, kPresentKey, kPresentValue };

// Sizes of one call; elements of a row of each tensor.
struct Sizes {
  int64_t batch = 0, rows = 0, past = 0, size = 0, v_size = 0;
  int64_t q_elems = 0, k_elems = 0, v_elems = 0;

  int64_t keys() const { return past + rows; }
};

class RegionAttention final : public Operator {
 public:
  static Result<std::unique_ptr<RegionAttention>> Create(const OpInfo& info) {
    auto op = std::make_unique<RegionAttention>();
    op->type_ = info.input_type(kQuery);
    op->heads_ = info.IntOr("q_num_heads", 0);
    op->kv_heads_ = info.IntOr("kv_num_heads", 0);
    op->size_ = info.IntOr("head_size", 0);
    op->scale_ = info.Float("scale");
    op->softcap_ = info.FloatOr("softcap", 0.0f);
    op->heads_apart_ = info.BoolOr("heads_apart", false);
    op->empty_is_nan_ = info.BoolOr("empty_is_nan", false);
    op->mask_repeats_ = info.BoolOr("mask_repeats", false);
    op->norm_epsilon_ = info.FloatOr("norm_epsilon", 1e-5f);
    op->norm_last_ = info.BoolOr("norm_last", false);
    op->interleaved_ = info.BoolOr("rotary_interleaved", false);
    if (op->heads_ <= 0 || op->kv_heads_ <= 0 || op->heads_ % op->kv_heads_ != 0) {
      return InvalidArgument(op->heads_, " heads of queries cannot share ", op->kv_heads_, " heads of keys");
    }
    op->packed_ = !info.has_input(kKey);
    op->packed_by_head_ = info.BoolOr("packed_by_head", false);
    if (op->packed_by_head_ && (!op->packed_ || op->heads_ != op->kv_heads_)) {
      return InvalidArgument("packed_by_head is for one tensor of as many heads of keys as of queries");
    }
    if (op->packed_ && op->size_ <= 0) return InvalidArgument("head_size ", op->size_, " must be > 0");
    constexpr int kTogether[][2] = {{kKey, kValue}, {kPastKey, kPastValue}, {kCos, kSin}, {kQueryNorm, kKeyNorm}};
    for (const auto& [a, b] : kTogether) {
      if (info.has_input(a) != info.has_input(b)) return InvalidArgument("inputs ", a, " and ", b, " come together");
    }
    for (int i = 0; i < 2; ++i) op->has_present_[i] = info.has_output(kPresentKey + i);
    op->library_ = MayUseLibrary(info.settings(), op->type_);
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const Sizes s, Measure(inputs));
    CUDAEP_RETURN_IF_ERROR(Problem(inputs).status());
    outputs[kResult] =
        heads_apart_ ? Shape{s.batch, s.rows, heads_, s.v_size} : Shape{s.batch, s.rows, heads_ * s.v_size};
    const Shape present[] = {{s.batch, kv_heads_, s.keys(), s.size}, {s.batch, kv_heads_, s.keys(), s.v_size}};
    for (size_t i = kPresentKey; i < outputs.size(); ++i) outputs[i] = present[i - kPresentKey];
    return Status::Ok();
  }

  bool MakePlanKey(TensorViews inputs, PlanKey& key) const override {
    return MultiHeadStep::AddKey(Problem(inputs), key);
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    CUDAEP_ASSIGN_OR_RETURN(const MultiHead problem, Problem(context.inputs));
    return MultiHeadPlan::Make(problem, context);
  }

  LibrarySet libraries() const override { return {.dnn = library_}; }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    CUDAEP_ASSIGN_OR_RETURN(const MultiHead problem, Problem(context.inputs));
    const kernels::AttentionProblem& p = problem.attention;
    const auto input = [&](int index) {
      return HasInput(context.inputs, index) ? context.input<std::byte>(index) : nullptr;
    };
    const auto bytes = [&](int64_t heads, int64_t size) { return static_cast<size_t>(heads * size) * SizeOf(type_); };
    const std::byte* const q = input(kQuery);
    const std::byte* const k = packed_ ? q + bytes(packed_by_head_ ? 1 : heads_, p.head_size) : input(kKey);
    const std::byte* const v = packed_ ? k + bytes(packed_by_head_ ? 1 : kv_heads_, p.head_size) : input(kValue);
    const MultiHeadPointers at{
        .attention = {.q = q, .k = k, .v = v, .y = context.output(kResult), .bias = input(kMask)},
        .q_norm = input(kQueryNorm),
        .k_norm = input(kKeyNorm),
        .cos = input(kCos),
        .sin = input(kSin),
        .past_key = input(kPastKey),
        .past_value = input(kPastValue),
        .present_key = has_present_[0] ? context.output(kPresentKey) : nullptr,
        .present_value = has_present_[1] ? context.output(kPresentValue) : nullptr};
    return PlanAs<MultiHeadPlan>(base).step.Enqueue(context, problem, at);
  }

 private:
  Result<Sizes> Measure(TensorViews inputs) const {
    Sizes s;
    const Dims q = inputs[kQuery].dims();
    CUDAEP_ASSIGN_OR_RETURN(s.q_elems, RowElems(q));
    s.batch = q[0], s.rows = q[1];
    if (packed_) {
      const int64_t v_elems = s.q_elems - (heads_ + kv_heads_) * size_;
      if (v_elems <= 0 || v_elems % kv_heads_ != 0) {
        return InvalidArgument("rows of ", q, " do not hold queries, keys and values of ", heads_, " and ", kv_heads_,
                               " heads of ", size_, " elements");
      }
      s.size = size_, s.v_size = v_elems / kv_heads_;
      s.k_elems = s.v_elems = s.q_elems;
    } else {
      CUDAEP_RETURN_IF_ERROR(MeasureParts(inputs, s));
    }
    if (HasInput(inputs, kPastKey)) CUDAEP_RETURN_IF_ERROR(MeasurePast(inputs, s));
    for (const int norm : {kQueryNorm, kKeyNorm}) {
      if (HasInput(inputs, norm) && !SameDims(inputs[static_cast<size_t>(norm)].dims(), Shape{s.size})) {
        return InvalidArgument("the norm's scale ", inputs[static_cast<size_t>(norm)].dims(), " must have ", s.size,
                               " elements");
      }
    }
    return s;
  }

  static Result<int64_t> RowElems(Dims dims) {
    if (dims.size() == 3) return dims[2];
    if (dims.size() == 4) return dims[2] * dims[3];
    return InvalidArgument("rows of heads ", dims, " must have 3 or 4 dimensions");
  }

  Status MeasureParts(TensorViews inputs, Sizes& s) const {
    const Dims q = inputs[kQuery].dims(), k = inputs[kKey].dims(), v = inputs[kValue].dims();
    CUDAEP_ASSIGN_OR_RETURN(s.k_elems, RowElems(k));
    CUDAEP_ASSIGN_OR_RETURN(s.v_elems, RowElems(v));
    s.size = s.q_elems / heads_, s.v_size = s.v_elems / kv_heads_;
    const bool fits = s.size > 0 && s.size * heads_ == s.q_elems && s.size * kv_heads_ == s.k_elems &&
                      s.v_size * kv_heads_ == s.v_elems && SameDims(k.first(2), q.first(2)) &&
                      SameDims(v.first(2), q.first(2));
    if (fits) return Status::Ok();
    return InvalidArgument("Q ", q, ", K ", k, " and V ", v, " are no rows of ", heads_, " and ", kv_heads_, " heads");
  }

  Status MeasurePast(TensorViews inputs, Sizes& s) const {
    const Dims key = inputs[kPastKey].dims(), value = inputs[kPastValue].dims();
    s.past = key.size() == 4 ? key[2] : 0;
    if (SameDims(key, Shape{s.batch, kv_heads_, s.past, s.size}) &&
        SameDims(value, Shape{s.batch, kv_heads_, s.past, s.v_size})) {
      return Status::Ok();
    }
    return InvalidArgument("past keys ", key, " and values ", value, " do not fit Q ", inputs[kQuery].dims());
  }

  Result<MultiHead> Problem(TensorViews inputs) const {
    CUDAEP_ASSIGN_OR_RETURN(const Sizes s, Measure(inputs));
    kernels::AttentionProblem p;
    p.type = type_;
    p.batch = s.batch, p.heads = heads_, p.kv_heads = kv_heads_;
    p.queries = s.rows, p.keys = s.keys(), p.past = s.past;
    p.head_size = s.size, p.v_head_size = s.v_size;
    p.q = RowsFirst(heads_, s.rows, s.size, s.q_elems);
    p.k = RowsFirst(kv_heads_, s.rows, s.size, s.k_elems);
    p.v = RowsFirst(kv_heads_, s.rows, s.v_size, s.v_elems);
    if (packed_by_head_) p.q.head = p.k.head = p.v.head = s.q_elems / heads_;
    p.y = RowsFirst(heads_, s.rows, s.v_size);
    p.scale = scale_ ? static_cast<double>(*scale_) : 1.0 / std::sqrt(static_cast<double>(s.size));
    p.softcap = softcap_;
    p.empty_is_nan = empty_is_nan_ && p.keys != 0;  // a sum of nothing is zero
    if (HasInput(inputs, kMask)) {
      p.bias = true;
      const Shape scores{s.batch, heads_, s.rows, s.keys()};
      const Dims mask = inputs[kMask].dims();
      CUDAEP_ASSIGN_OR_RETURN(p.bias_strides, mask_repeats_ ? MapRepeatedScores(mask, scores, "the mask")
                                                            : MapScores(mask, scores, false, "the mask"));
    }
    MultiHead problem{.attention = p, .library = library_, .new_keys = s.rows};
    problem.norms = HasInput(inputs, kQueryNorm);
    problem.norm_epsilon = norm_epsilon_;
    problem.norm_last = norm_last_;
    problem.q_rotary = problem.k_rotary = HasInput(inputs, kCos);
    if (problem.q_rotary) {
      CUDAEP_ASSIGN_OR_RETURN(problem.rotary,
                              RotaryOf(inputs[kCos].dims(), inputs[kSin].dims(), s.batch, s.rows, s.size));
      problem.rotary.interleaved = interleaved_;
    }
    problem.appends = HasInput(inputs, kPastKey) || has_present_[0] || has_present_[1];
    problem.past = problem.past_capacity = s.past;
    problem.capacity = s.keys();
    problem.has_present_key = has_present_[0], problem.has_present_value = has_present_[1];
    return problem;
  }

  DataType type_ = DataType::kFloat;
  int64_t heads_ = 0, kv_heads_ = 0, size_ = 0;
  std::optional<float> scale_;
  double softcap_ = 0;
  float norm_epsilon_ = 0;
  bool packed_ = false, heads_apart_ = false, empty_is_nan_ = false, mask_repeats_ = false, library_ = false;
  bool packed_by_head_ = false, interleaved_ = false, norm_last_ = false;
  bool has_present_[2] = {};
};

const RegisterRows kRows({
    {.domain = kFusedDomain, .op = "Attention", .types = {{"T", kFloatTypesNoDouble}}, .make = Make<RegionAttention>},
});

}  // namespace
}  // namespace cudaep::ops
