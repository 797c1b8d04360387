// com.microsoft's MultiHeadAttention: queries, keys and values apart or packed, with a bias, masks, past and present.
//
// A key that the padding mask hides gets mask_filter_value added to its score, as the CPU provider does it: a row whose
// keys are all hidden has the weights that it would have without a mask. With `unidirectional` query i sees the past
// and the first i + 1 new keys.
#include <cmath>

#include "ops/attention/masks.h"
#include "ops/attention/multi_head.h"
#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input : int { kQuery, kKey, kValue, kBias, kMask, kScoreBias, kPastKey, kPastValue, kPastLength, kIndirection };
enum Output : int { kResult, kPresentKey, kPresentValue, kScores };

enum class Packing : uint8_t {
  kNone,        // [batch, rows, hidden] each
  kKeyValue,    // keys and values as [batch, rows, heads, 2, size]
  kAll,         // queries too, as [batch, rows, heads, 3, size]
  kHeadsFirst,  // keys and values as [batch, heads, rows, size], of another sequence; the bias is not added to them
};

struct Sizes {
  Packing packing = Packing::kNone;
  int64_t batch = 0, queries = 0, new_keys = 0, past = 0, past_capacity = 0;
  int64_t head_size = 0, v_head_size = 0;
  bool shares = false;  // past and present are one buffer of past_capacity rows

  int64_t keys() const { return past + new_keys; }
  int64_t capacity() const { return shares ? past_capacity : keys(); }
};

class MultiHeadAttention final : public Operator {
 public:
  static Result<std::unique_ptr<MultiHeadAttention>> Create(const OpInfo& info) {
    auto op = std::make_unique<MultiHeadAttention>();
    op->type_ = info.input_type(kQuery);
    op->heads_ = info.IntOr("num_heads", 0);
    if (op->heads_ <= 0) return InvalidArgument("num_heads ", op->heads_, " must be > 0");
    op->library_ = MayUseLibrary(info.settings(), op->type_) && !info.has_input(kMask);
    op->unidirectional_ = info.BoolOr("unidirectional", false);
    op->filter_ = info.FloatOr("mask_filter_value", -10000.0f);
    op->scale_ = info.FloatOr("scale", 0.0f);
    if (info.has_input(kIndirection)) return NotSupported("cache_indirection, of beam search");
    if (info.has_input(kPastKey) != info.has_input(kPastValue)) {
      return InvalidArgument("past_key and past_value come together");
    }
    op->shares_ = info.has_input(kPastLength);
    if (op->shares_ && !info.has_input(kPastKey)) return InvalidArgument("past_sequence_length without past_key");
    op->has_present_[0] = info.has_output(kPresentKey);
    op->has_present_[1] = info.has_output(kPresentValue);
    op->has_scores_ = info.has_output(kScores);
    if (op->has_scores_ && info.output_type(kScores) != op->type_) {
      return NotSupported("scores of ", DataTypeName(info.output_type(kScores)), " beside queries of ",
                          DataTypeName(op->type_));
    }
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const Sizes s, Measure(inputs));
    CUDAEP_RETURN_IF_ERROR(Problem(inputs, s, nullptr).status());
    outputs[kResult] = {s.batch, s.queries, heads_ * s.v_head_size};
    const Shape others[] = {{s.batch, heads_, s.capacity(), s.head_size},
                            {s.batch, heads_, s.capacity(), s.v_head_size},
                            {s.batch, heads_, s.queries, s.keys()}};
    for (size_t i = kPresentKey; i < outputs.size() && i <= kScores; ++i) outputs[i] = others[i - kPresentKey];
    return Status::Ok();
  }

  bool MakePlanKey(TensorViews inputs, PlanKey& key) const override {
    Result<Sizes> s = Measure(inputs);
    return s.ok() && MultiHeadStep::AddKey(Problem(inputs, *s, nullptr), key);
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    CUDAEP_ASSIGN_OR_RETURN(const Sizes s, Measure(context.inputs));
    CUDAEP_ASSIGN_OR_RETURN(const MultiHead problem, Problem(context.inputs, s, nullptr));
    return MultiHeadPlan::Make(problem, context);
  }

  LibrarySet libraries() const override { return {.dnn = library_}; }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    CUDAEP_ASSIGN_OR_RETURN(const Sizes s, Measure(context.inputs));
    MaskUse mask;
    CUDAEP_ASSIGN_OR_RETURN(const MultiHead problem, Problem(context.inputs, s, &mask));
    const auto input = [&](int index) {
      return HasInput(context.inputs, index) ? context.input<std::byte>(index) : nullptr;
    };
    const size_t head_bytes = static_cast<size_t>(s.head_size) * SizeOf(type_);
    const size_t hidden_bytes = static_cast<size_t>(heads_) * head_bytes;
    const size_t k_offset = s.packing == Packing::kAll ? head_bytes : 0;
    const size_t v_offset = s.packing == Packing::kKeyValue ? head_bytes : 2 * k_offset;
    const std::byte* const query = input(kQuery);
    const std::byte* const key = input(kKey) == nullptr ? query : input(kKey);
    const std::byte* const value = input(kValue) == nullptr ? key : input(kValue);
    const std::byte* const bias = input(kBias);
    MultiHeadPointers at{.attention = {.q = query,
                                       .k = key + k_offset,
                                       .v = value + v_offset,
                                       .y = context.output(kResult),
                                       .bias = input(kScoreBias),
                                       .scores = has_scores_ ? context.output(kScores) : nullptr},
                         .past_key = input(kPastKey),
                         .past_value = input(kPastValue),
                         .present_key = has_present_[0] ? context.output(kPresentKey) : nullptr,
                         .present_value = has_present_[1] ? context.output(kPresentValue) : nullptr};
    if (bias != nullptr) {
      at.q_bias = bias;
      at.k_bias = bias + hidden_bytes;
      at.v_bias = bias + 2 * hidden_bytes;
    }
    mask.Place(input(kMask), at.attention);
    return PlanAs<MultiHeadPlan>(base).step.Enqueue(context, problem, at);
  }

 private:
  Result<Sizes> Measure(TensorViews inputs) const {
    const Dims q = inputs[kQuery].dims();
    const Dims k = HasInput(inputs, kKey) ? inputs[kKey].dims() : Dims();
    const Dims v = HasInput(inputs, kValue) ? inputs[kValue].dims() : Dims();
    const auto refuse = [&](const char* why) {
      return InvalidArgument("query ", q, ", key ", k, " and value ", v, ": ", why);
    };
    Sizes s;
    if (q.size() == 5) {
      s.packing = Packing::kAll;
      if (!k.empty() || !v.empty() || q[2] != heads_ || q[3] != 3) return refuse("packed as [batch,rows,heads,3,size]");
      s.head_size = s.v_head_size = q[4];
      s.new_keys = q[1];
    } else if (q.size() != 3 || k.empty() || q[2] % heads_ != 0) {
      return refuse("a query has 3 dimensions, and a key");
    } else {
      s.head_size = q[2] / heads_;
      CUDAEP_RETURN_IF_ERROR(MeasureKeys(k, v, refuse, s));
      if (k[0] != q[0]) return refuse("batches differ");
    }
    s.batch = q[0], s.queries = q[1];
    if (s.head_size == 0) return refuse("a head has no elements");
    const Shape bias{heads_ * (2 * s.head_size + s.v_head_size)};
    if (HasInput(inputs, kBias) && !SameDims(inputs[kBias].dims(), bias)) {
      return InvalidArgument("bias ", inputs[kBias].dims(), " must be ", bias.dims());
    }
    if (HasInput(inputs, kPastKey)) CUDAEP_RETURN_IF_ERROR(MeasurePast(inputs, s));
    return s;
  }

  template <class Refuse>
  Status MeasureKeys(Dims k, Dims v, Refuse refuse, Sizes& s) const {
    if (k.size() == 5) {
      s.packing = Packing::kKeyValue;
      s.v_head_size = s.head_size, s.new_keys = k[1];
      const bool fits = v.empty() && k[2] == heads_ && k[3] == 2 && k[4] == s.head_size;
      return fits ? Status::Ok() : refuse("packed as [batch,rows,heads,2,size]");
    }
    if (k.size() == 4) {
      s.packing = Packing::kHeadsFirst;
      const bool fits = v.size() == 4 && SameDims(k.first(3), v.first(3)) && k[1] == heads_ && k[3] == s.head_size;
      if (!fits) return refuse("keys and values of [batch,heads,rows,size]");
      s.v_head_size = v[3], s.new_keys = k[2];
      return Status::Ok();
    }
    const bool fits = k.size() == 3 && v.size() == 3 && SameDims(k.first(2), v.first(2)) &&
                      k[2] == heads_ * s.head_size && v[2] % heads_ == 0;
    if (!fits) return refuse("keys and values of [batch,rows,hidden]");
    s.v_head_size = v[2] / heads_, s.new_keys = k[1];
    return Status::Ok();
  }

  Status MeasurePast(TensorViews inputs, Sizes& s) const {
    const Dims key = inputs[kPastKey].dims(), value = inputs[kPastValue].dims();
    s.past_capacity = key.size() == 4 ? key[2] : 0;
    const bool fits = key.size() == 4 && SameDims(key, Shape{s.batch, heads_, s.past_capacity, s.head_size}) &&
                      SameDims(value, Shape{s.batch, heads_, s.past_capacity, s.v_head_size});
    if (!fits || s.packing == Packing::kHeadsFirst) {
      return InvalidArgument("past_key ", key, " and past_value ", value, " do not fit heads of ", s.head_size, " and ",
                             s.v_head_size);
    }
    s.past = s.past_capacity;
    if (!shares_) return Status::Ok();
    s.shares = true;
    CUDAEP_ASSIGN_OR_RETURN(s.past, SharedPastLength(inputs[kPastLength], s.new_keys, s.past_capacity));
    return Status::Ok();
  }

  Result<MultiHead> Problem(TensorViews inputs, const Sizes& s, MaskUse* mask) const {
    MultiHead problem;
    kernels::AttentionProblem& p = problem.attention;
    p.type = type_;
    p.batch = s.batch, p.heads = p.kv_heads = heads_;
    p.queries = s.queries, p.keys = s.keys();
    p.head_size = s.head_size, p.v_head_size = s.v_head_size;
    const int64_t parts = s.packing == Packing::kAll ? 3 : s.packing == Packing::kKeyValue ? 2 : 0;
    const kernels::AttentionStrides packed{.batch = s.new_keys * heads_ * parts * s.head_size,
                                           .head = parts * s.head_size,
                                           .row = heads_ * parts * s.head_size};
    p.q = s.packing == Packing::kAll ? packed : RowsFirst(heads_, s.queries, s.head_size);
    p.k = p.v = packed;
    if (s.packing == Packing::kNone) {
      p.k = RowsFirst(heads_, s.new_keys, s.head_size);
      p.v = RowsFirst(heads_, s.new_keys, s.v_head_size);
    } else if (s.packing == Packing::kHeadsFirst) {
      p.k = HeadsFirst(heads_, s.new_keys, s.head_size);
      p.v = HeadsFirst(heads_, s.new_keys, s.v_head_size);
    }
    p.y = RowsFirst(heads_, s.queries, s.v_head_size);
    p.scale = scale_ != 0 ? static_cast<double>(scale_) : 1.0 / std::sqrt(static_cast<double>(s.head_size));
    p.past = s.past;
    if (unidirectional_) p.right = 0;
    if (has_scores_) p.scores = kernels::AttentionScores::kMasked;
    if (HasInput(inputs, kScoreBias)) {
      p.bias = true;
      CUDAEP_ASSIGN_OR_RETURN(
          p.bias_strides,
          MapScores(inputs[kScoreBias].dims(), Shape{s.batch, heads_, s.queries, s.keys()}, false, "attention_bias"));
    }
    if (HasInput(inputs, kMask)) {
      CUDAEP_ASSIGN_OR_RETURN(const MaskUse use, UseIntMask(inputs[kMask].dims(), filter_, MaskForms::kPadding, 0, p));
      if (mask != nullptr) *mask = use;
    }
    problem.library = library_;
    problem.new_keys = s.new_keys;
    problem.q_bias = HasInput(inputs, kBias);
    problem.kv_bias = problem.q_bias && s.packing != Packing::kHeadsFirst;
    problem.appends = HasInput(inputs, kPastKey) || has_present_[0] || has_present_[1];
    problem.past = s.past;
    problem.past_capacity = s.past_capacity;
    problem.capacity = s.capacity();
    problem.has_present_key = has_present_[0];
    problem.has_present_value = has_present_[1];
    return problem;
  }

  DataType type_ = DataType::kFloat;
  int64_t heads_ = 0;
  float filter_ = 0, scale_ = 0;
  bool unidirectional_ = false, shares_ = false, has_scores_ = false, library_ = false;
  bool has_present_[2] = {};
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "MultiHeadAttention",
     .types = {{"T", kFloatTypesNoDouble}, {"M", DataType::kInt32}, {"QK", kFloatTypesNoDouble}},
     .host_inputs = {kPastLength},
     .in_place = {{kPastKey, kPresentKey}, {kPastValue, kPresentValue}},
     .make = Make<MultiHeadAttention>},
});

}  // namespace
}  // namespace cudaep::ops
