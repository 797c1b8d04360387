// ONNX Attention: inputs of 3 or 4 dimensions, masks, past and present keys and values, scores as an output. Compiled
// regions may add "empty_is_nan": a query whose scores are all minus infinity gets NaN, as from Softmax, not zeros; and
// "mask_repeats": attn_mask may be of fewer batch entries, which come again and again.
#include <cmath>

#include "ops/attention/multi_head.h"
#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input : int { kQuery, kKey, kValue, kMask, kPastKey, kPastValue, kLengths, kInputs };
enum Output : int { kResult, kPresentKey, kPresentValue, kScores, kOutputs };

// Sizes of one call.
struct Sizes {
  int64_t batch, heads, kv_heads, queries, new_keys, past, head_size, v_head_size;
  bool heads_first;  // 4 dimensions

  int64_t keys() const { return past + new_keys; }
};

class Attention final : public Operator {
 public:
  static Result<std::unique_ptr<Attention>> Create(const OpInfo& info) {
    auto op = std::make_unique<Attention>();
    op->type_ = info.input_type(kQuery);
    op->heads_ = info.IntOr("q_num_heads", 0);
    op->kv_heads_ = info.IntOr("kv_num_heads", 0);
    op->scale_ = info.Float("scale");
    const bool hides = info.has_input(kMask) && info.input_type(kMask) != op->type_;
    op->library_ = MayUseLibrary(info.settings(), op->type_) && !hides;
    op->pads_mask_ = info.since_version() >= 24;
    kernels::AttentionProblem& p = op->problem_;
    p.type = op->type_;
    p.compute = op->type_ == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
    p.softcap = info.FloatOr("softcap", 0.0f);
    if (p.softcap < 0) return InvalidArgument("softcap ", p.softcap, " is negative");
    if (info.BoolOr("is_causal", false)) p.right = 0;
    p.empty_is_nan = info.BoolOr("empty_is_nan", false);
    op->mask_repeats_ = info.BoolOr("mask_repeats", false);
    CUDAEP_RETURN_IF_ERROR(op->ReadWindow(info));
    CUDAEP_RETURN_IF_ERROR(op->ReadPrecision(info));
    CUDAEP_RETURN_IF_ERROR(op->ReadInputs(info));
    const int64_t mode = info.IntOr("qk_matmul_output_mode", 0);
    if (mode < 0 || mode > 3) return InvalidArgument("qk_matmul_output_mode ", mode, " is not 0 to 3");
    op->scores_ = info.has_output(kScores);
    if (op->scores_) p.scores = static_cast<kernels::AttentionScores>(mode + 1);
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const Sizes s, Measure(inputs));
    CUDAEP_RETURN_IF_ERROR(Problem(inputs).status());
    outputs[kResult] = s.heads_first ? Shape{s.batch, s.heads, s.queries, s.v_head_size}
                                     : Shape{s.batch, s.queries, s.heads * s.v_head_size};
    const Shape others[] = {{s.batch, s.kv_heads, s.keys(), s.head_size},
                            {s.batch, s.kv_heads, s.keys(), s.v_head_size},
                            {s.batch, s.heads, s.queries, s.keys()}};
    for (size_t i = kPresentKey; i < outputs.size() && i < kOutputs; ++i) outputs[i] = others[i - kPresentKey];
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
    const auto optional = [&](int index) { return HasInput(context.inputs, index) ? context.input(index) : nullptr; };
    const MultiHeadPointers at{.attention = {.q = context.input(kQuery),
                                             .k = context.input(kKey),
                                             .v = context.input(kValue),
                                             .y = context.output(kResult),
                                             .mask = optional(kMask),
                                             .bias = optional(kMask),
                                             .key_end = optional(kLengths),
                                             .scores = scores_ ? context.output(kScores) : nullptr},
                               .past_key = optional(kPastKey),
                               .past_value = optional(kPastValue),
                               .present_key = has_present_[0] ? context.output(kPresentKey) : nullptr,
                               .present_value = has_present_[1] ? context.output(kPresentValue) : nullptr};
    return PlanAs<MultiHeadPlan>(base).step.Enqueue(context, problem, at);
  }

 private:
  // Since version 25.
  Status ReadWindow(const OpInfo& info) {
    const int64_t left = info.IntOr("left_window_size", -1), right = info.IntOr("right_window_size", -1);
    if (left < -1) return InvalidArgument("left_window_size ", left, " is below -1");
    if (right < -1) return InvalidArgument("right_window_size ", right, " is below -1");
    if (left >= 0) problem_.left = std::min(problem_.left, left);
    if (right >= 0) problem_.right = std::min(problem_.right, right);
    return Status::Ok();
  }

  // Softmax is at least as precise as asked for: fp32 for 16 bits.
  Status ReadPrecision(const OpInfo& info) {
    const int64_t precision = info.IntOr("softmax_precision", 0);
    const auto type = static_cast<DataType>(precision);
    if (precision == 0 || (precision > 0 && precision < kDataTypeCount && kFloatTypes.Contains(type))) {
      if (type == DataType::kDouble) problem_.compute = DataType::kDouble;
      return Status::Ok();
    }
    return InvalidArgument("softmax_precision ", precision, " is no type of floating-point numbers");
  }

  Status ReadInputs(const OpInfo& info) {
    if (info.input_type(kValue) != type_) {
      return NotSupported("Q of ", DataTypeName(type_), " and V of ", DataTypeName(info.input_type(kValue)));
    }
    if (info.has_input(kMask)) {
      const DataType mask = info.input_type(kMask);
      if (mask != DataType::kBool && mask != type_) {
        return NotSupported("attn_mask of ", DataTypeName(mask), " beside Q of ", DataTypeName(type_));
      }
    }
    if (info.has_input(kPastKey) != info.has_input(kPastValue)) {
      return InvalidArgument("past_key and past_value come together");
    }
    past_ = info.has_input(kPastKey);
    for (int i = 0; i < 2; ++i) has_present_[i] = info.has_output(kPresentKey + i);
    present_ = has_present_[0] || has_present_[1];
    if (info.has_input(kLengths) && (past_ || present_)) {
      return InvalidArgument("nonpad_kv_seqlen is for keys and values without past and present");
    }
    return Status::Ok();
  }

  Result<Sizes> Measure(TensorViews inputs) const {
    const Dims q = inputs[kQuery].dims(), k = inputs[kKey].dims(), v = inputs[kValue].dims();
    const auto refuse = [&](const char* why) { return InvalidArgument("Q ", q, ", K ", k, " and V ", v, ": ", why); };
    Sizes s{};
    if (q.size() != k.size() || q.size() != v.size() || (q.size() != 3 && q.size() != 4)) {
      return refuse("all must have 3 or 4 dimensions");
    }
    s.heads_first = q.size() == 4;
    s.batch = q[0];
    if (s.heads_first) {
      s.heads = q[1], s.kv_heads = k[1];
      s.queries = q[2], s.new_keys = k[2];
      s.head_size = q[3], s.v_head_size = v[3];
      if (v[1] != k[1] || k[3] != q[3]) return refuse("heads or head sizes differ");
    } else {
      s.heads = heads_, s.kv_heads = kv_heads_;
      if (heads_ <= 0 || kv_heads_ <= 0) return InvalidArgument("3 dimensions need q_num_heads and kv_num_heads");
      if (q[2] % heads_ != 0 || k[2] % kv_heads_ != 0 || v[2] % kv_heads_ != 0) {
        return refuse("hidden sizes are no multiples of the heads");
      }
      s.queries = q[1], s.new_keys = k[1];
      s.head_size = q[2] / heads_, s.v_head_size = v[2] / kv_heads_;
      if (k[2] / kv_heads_ != s.head_size) return refuse("head sizes of Q and K differ");
    }
    const int64_t v_rows = s.heads_first ? v[2] : v[1];
    if (k[0] != s.batch || v[0] != s.batch || v_rows != s.new_keys) return refuse("batch or sequence lengths differ");
    if (s.kv_heads == 0 || s.heads % s.kv_heads != 0) {
      return InvalidArgument(s.heads, " heads of Q cannot share ", s.kv_heads, " heads of K");
    }
    if (s.head_size == 0) return refuse("a head has no elements");
    if (past_) {
      const Dims past = inputs[kPastKey].dims(), past_value = inputs[kPastValue].dims();
      s.past = past.size() == 4 ? past[2] : 0;
      if (past.size() != 4 || !SameDims(past, Shape{s.batch, s.kv_heads, s.past, s.head_size}) ||
          !SameDims(past_value, Shape{s.batch, s.kv_heads, s.past, s.v_head_size})) {
        return InvalidArgument("past_key ", past, " and past_value ", past_value, " do not fit K ", k, " and V ", v);
      }
    }
    if (HasInput(inputs, kLengths) && !SameDims(inputs[kLengths].dims(), Shape{s.batch})) {
      return InvalidArgument("nonpad_kv_seqlen ", inputs[kLengths].dims(), " of a batch of ", s.batch);
    }
    return s;
  }

  Result<MultiHead> Problem(TensorViews inputs) const {
    CUDAEP_ASSIGN_OR_RETURN(const Sizes s, Measure(inputs));
    kernels::AttentionProblem p = problem_;
    p.batch = s.batch, p.heads = s.heads, p.kv_heads = s.kv_heads;
    p.queries = s.queries, p.keys = s.keys();
    p.head_size = s.head_size, p.v_head_size = s.v_head_size;
    const auto strides = [&](int64_t heads, int64_t rows, int64_t size) {
      return s.heads_first ? HeadsFirst(heads, rows, size) : RowsFirst(heads, rows, size);
    };
    p.q = strides(s.heads, s.queries, s.head_size);
    p.y = strides(s.heads, s.queries, s.v_head_size);
    p.k = strides(s.kv_heads, s.new_keys, s.head_size);
    p.v = strides(s.kv_heads, s.new_keys, s.v_head_size);
    p.past = s.past;
    p.empty_is_nan = p.empty_is_nan && p.keys != 0;  // a sum of nothing is zero
    p.from_end = HasInput(inputs, kLengths);
    p.scale = scale_ ? static_cast<double>(*scale_) : 1.0 / std::sqrt(static_cast<double>(s.head_size));
    if (HasInput(inputs, kMask)) {
      const Shape scores{s.batch, s.heads, s.queries, s.keys()};
      p.bias = inputs[kMask].type != DataType::kBool;
      if (!p.bias) p.mask = kernels::AttentionMask::kBool;
      CUDAEP_ASSIGN_OR_RETURN((p.bias ? p.bias_strides : p.mask_strides),
                              mask_repeats_ ? MapRepeatedScores(inputs[kMask].dims(), scores, "attn_mask")
                                            : MapScores(inputs[kMask].dims(), scores, pads_mask_, "attn_mask"));
    }
    return MultiHead{.attention = p,
                     .library = library_,
                     .new_keys = s.new_keys,
                     .appends = past_ || present_,
                     .past = s.past,
                     .past_capacity = s.past,
                     .capacity = s.keys(),
                     .has_present_key = has_present_[0],
                     .has_present_value = has_present_[1]};
  }

  DataType type_ = DataType::kFloat;
  int64_t heads_ = 0, kv_heads_ = 0;  // of 3 dimensions
  std::optional<float> scale_;
  bool pads_mask_ = false, mask_repeats_ = false, past_ = false, present_ = false, scores_ = false, library_ = false;
  bool has_present_[2] = {};
  kernels::AttentionProblem problem_;  // what attributes say
};

const RegisterRows kRows({
    {.op = "Attention",
     .since = 23,
     .until = 25,
     .types = {{"T1", kFloatTypes}, {"T2", kFloatTypes}, {"U", kFloatTypes | DataTypeSet(DataType::kBool)}},
     .make = Make<Attention>},
});

}  // namespace
}  // namespace cudaep::ops
