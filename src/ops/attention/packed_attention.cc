// com.microsoft's Attention: one product with the joined weights of queries, keys and values, then attention over
// strided views of its result. Masks as MultiHeadAttention has them, and more forms of them. "empty_is_nan" is
// attention.cc's, "own_weights" short_product.h's.
#include <cmath>

#include "ops/attention/masks.h"
#include "ops/attention/multi_head.h"
#include "ops/gemm/gemm_plan.h"
#include "ops/gemm/matrix_product.h"
#include "ops/gemm/short_product.h"
#include "ops/gemm/turned_weight.h"
#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input : int { kHidden, kWeights, kBias, kMask, kPast, kScoreBias, kPastLength };
enum Output : int { kResult, kPresent };

struct Sizes {
  int64_t batch = 0, rows = 0, input_size = 0;
  int64_t hidden = 0, v_hidden = 0;  // of queries and of keys, and of values
  int64_t past = 0, past_capacity = 0, capacity = 0;

  int64_t all_hidden() const { return 2 * hidden + v_hidden; }
  int64_t keys() const { return past + rows; }
};

struct AttentionPlan : Plan {
  MatrixProduct product;
  MultiHeadStep step;
  size_t projected = 0, workspace = 0;  // scratch
  bool empty = false;
};

class PackedAttention final : public Operator {
 public:
  static Result<std::unique_ptr<PackedAttention>> Create(const OpInfo& info) {
    auto op = std::make_unique<PackedAttention>();
    op->type_ = info.input_type(kHidden);
    op->heads_ = info.IntOr("num_heads", 0);
    if (op->heads_ <= 0) return InvalidArgument("num_heads ", op->heads_, " must be > 0");
    if (info.BoolOr("do_rotary", false)) {
      return NotSupported("do_rotary, whose angles no input has; MultiHeadAttention after RotaryEmbedding does it");
    }
    op->library_ = MayUseLibrary(info.settings(), op->type_) && !info.has_input(kMask);
    op->unidirectional_ = info.BoolOr("unidirectional", false);
    op->filter_ = info.FloatOr("mask_filter_value", -10000.0f);
    op->scale_ = info.FloatOr("scale", 0.0f);
    op->empty_is_nan_ = info.BoolOr("empty_is_nan", false);
    op->shares_ = info.BoolOr("past_present_share_buffer", false);
    if (op->shares_ && (!info.has_input(kPastLength) || !info.has_input(kPast))) {
      return InvalidArgument("past_present_share_buffer needs past and past_sequence_length");
    }
    op->has_present_ = info.has_output(kPresent);
    op->options_ = ProductOptions(info.settings());
    op->options_.constant_b = info.is_constant(kWeights);
    op->options_.constant_bias = info.is_constant(kBias);
    op->options_.compiles &= !info.has_input(kBias) || op->options_.constant_bias;
    op->options_.may_be_short = MayBeShort(info, kWeights, true);
    CUDAEP_RETURN_IF_ERROR(op->ReadSizes(info.IntsOr("qkv_hidden_sizes", {})));
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const Sizes s, Measure(inputs));
    CUDAEP_RETURN_IF_ERROR(Problem(inputs, s, nullptr).status());
    outputs[kResult] = {s.batch, s.rows, s.v_hidden};
    if (outputs.size() > kPresent) outputs[kPresent] = {2, s.batch, heads_, s.capacity, s.hidden / heads_};
    return Status::Ok();
  }

  // The product is planned for rounded rows, as attention is.
  bool MakePlanKey(TensorViews inputs, PlanKey& key) const override {
    Result<Sizes> s = Measure(inputs);
    if (!s.ok()) return false;
    key.Add(s->input_size);
    return MultiHeadStep::AddKey(Problem(inputs, *s, nullptr), key);
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<AttentionPlan>();
    CUDAEP_ASSIGN_OR_RETURN(const Sizes s, Measure(context.inputs));
    plan->empty = s.batch * s.rows == 0;
    if (!plan->empty) CUDAEP_RETURN_IF_ERROR(PlanProduct(context, s, *plan));
    CUDAEP_ASSIGN_OR_RETURN(const MultiHead problem, Problem(context.inputs, s, nullptr));
    CUDAEP_ASSIGN_OR_RETURN(plan->step, MultiHeadStep::Make(problem, context, *plan));
    return PlanPtr(std::move(plan));
  }

  Result<size_t> PackedBytes(int index, const TensorView& weight) const override {
    return index == kWeights && options_.may_be_short ? PackedShortWeights(weight) : size_t{0};
  }

  Status Pack(int /*index*/, const TensorView& weight, void* packed, StreamContext& runtime) const override {
    return TurnWeight(weight, packed, runtime);
  }

  LibrarySet libraries() const override {
    return {.blas = true, .dnn = library_ || (options_.may_be_short && options_.compiles)};
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<AttentionPlan>(base);
    CUDAEP_ASSIGN_OR_RETURN(const Sizes s, Measure(context.inputs));
    MaskUse mask;
    CUDAEP_ASSIGN_OR_RETURN(const MultiHead problem, Problem(context.inputs, s, &mask));
    const size_t hidden_bytes = static_cast<size_t>(s.hidden) * SizeOf(type_);
    const auto input = [&](int index) {
      return HasInput(context.inputs, index) ? context.input<std::byte>(index) : nullptr;
    };
    std::byte* const projected = context.scratch<std::byte>(plan.projected);
    if (!plan.empty) {
      CUDAEP_ASSIGN_OR_RETURN(const MatrixProduct product, plan.product.OfRows(context.runtime, s.batch * s.rows));
      CUDAEP_RETURN_IF_ERROR(product.Enqueue(context.runtime, {.a = input(kHidden),
                                                               .b = input(kWeights),
                                                               .c = projected,
                                                               .bias = input(kBias),
                                                               .workspace = context.scratch(plan.workspace)}));
    }
    MultiHeadPointers at{.attention = {.q = projected,
                                       .k = projected + hidden_bytes,
                                       .v = projected + 2 * hidden_bytes,
                                       .y = context.output(kResult),
                                       .bias = input(kScoreBias)}};
    mask.Place(input(kMask), at.attention);
    if (const std::byte* const past = input(kPast); past != nullptr) {
      at.past_key = past;
      at.past_value = past + static_cast<size_t>(s.batch * s.past_capacity) * hidden_bytes;
    }
    if (has_present_ && context.output(kPresent) != nullptr) {
      at.present_key = context.output(kPresent);
      at.present_value = context.output<std::byte>(kPresent) + static_cast<size_t>(s.batch * s.capacity) * hidden_bytes;
    }
    return plan.step.Enqueue(context, problem, at);
  }

 private:
  Status ReadSizes(const std::vector<int64_t>& sizes) {
    if (sizes.empty()) return Status::Ok();
    const bool fits = sizes.size() == 3 && sizes[0] == sizes[1] && sizes[0] > 0 && sizes[2] > 0 &&
                      sizes[0] % heads_ == 0 && sizes[2] % heads_ == 0;
    if (!fits) {
      return InvalidArgument("qkv_hidden_sizes ", Dims(sizes), " must be those of ", heads_,
                             " heads, queries and keys being alike");
    }
    hidden_ = sizes[0], v_hidden_ = sizes[2];
    if (hidden_ != v_hidden_ && has_present_) {
      return NotSupported("present of keys and values of different sizes ", Dims(sizes));
    }
    return Status::Ok();
  }

  Result<Sizes> Measure(TensorViews inputs) const {
    const Dims x = inputs[kHidden].dims(), weights = inputs[kWeights].dims();
    Sizes s;
    if (x.size() != 3 || weights.size() != 2 || weights[0] != x[2]) {
      return InvalidArgument("input ", x, " and weights ", weights, " must be [batch,rows,size] and [size,hidden]");
    }
    s.batch = x[0], s.rows = x[1], s.input_size = x[2];
    s.hidden = hidden_ != 0 ? hidden_ : weights[1] / 3;
    s.v_hidden = hidden_ != 0 ? v_hidden_ : s.hidden;
    if (s.all_hidden() != weights[1] || s.hidden == 0 || s.hidden % heads_ != 0) {
      return InvalidArgument("weights ", weights, " do not hold queries, keys and values of ", heads_, " heads");
    }
    if (HasInput(inputs, kBias) && !SameDims(inputs[kBias].dims(), weights.last(1))) {
      return InvalidArgument("bias ", inputs[kBias].dims(), " must have ", weights[1], " elements");
    }
    if (HasInput(inputs, kPast)) CUDAEP_RETURN_IF_ERROR(MeasurePast(inputs, s));
    s.capacity = shares_ ? s.past_capacity : s.keys();
    return s;
  }

  Status MeasurePast(TensorViews inputs, Sizes& s) const {
    const Dims past = inputs[kPast].dims();
    s.past_capacity = past.size() == 5 ? past[3] : 0;
    const Shape wanted{2, s.batch, heads_, s.past_capacity, s.hidden / heads_};
    if (past.size() != 5 || !SameDims(past, wanted) || s.hidden != s.v_hidden) {
      return InvalidArgument("past ", past, " must be ", wanted.dims(), ", keys and values being alike");
    }
    s.past = s.past_capacity;
    if (!shares_) return Status::Ok();
    CUDAEP_ASSIGN_OR_RETURN(s.past, SharedPastLength(inputs[kPastLength], s.rows, s.past_capacity));
    return Status::Ok();
  }

  Status PlanProduct(const PlanContext& context, const Sizes& s, AttentionPlan& plan) const {
    const Shape bias{s.all_hidden()};
    const Dims bias_dims = bias;
    const Shape rows{s.batch * RowBucket(s.rows), s.input_size};
    CUDAEP_ASSIGN_OR_RETURN(GemmGeometry geometry,
                            PlaceGemm(rows, false, context.inputs[kWeights].dims(), false,
                                      HasInput(context.inputs, kBias) ? &bias_dims : nullptr, 1.0f));
    geometry.problem.types = lib::MixedTypes::Of(type_);
    if (context.inputs[kWeights].packed) geometry.problem.transpose_b = true, geometry.problem.ldb = s.input_size;
    CUDAEP_ASSIGN_OR_RETURN(plan.product, MatrixProduct::Make(context.runtime, geometry.problem, options_));
    plan.projected = plan.AddScratch(static_cast<size_t>(rows[0] * s.all_hidden()) * SizeOf(type_));
    plan.workspace = plan.AddScratch(plan.product.workspace_bytes());
    plan.settled = plan.settled && plan.product.settled();
    return Status::Ok();
  }

  Result<MultiHead> Problem(TensorViews inputs, const Sizes& s, MaskUse* mask) const {
    MultiHead problem;
    kernels::AttentionProblem& p = problem.attention;
    p.type = type_;
    p.batch = s.batch, p.heads = p.kv_heads = heads_;
    p.queries = s.rows, p.keys = s.keys();
    p.head_size = s.hidden / heads_, p.v_head_size = s.v_hidden / heads_;
    p.q = p.k = RowsFirst(heads_, s.rows, p.head_size, s.all_hidden());
    p.v = RowsFirst(heads_, s.rows, p.v_head_size, s.all_hidden());
    p.y = RowsFirst(heads_, s.rows, p.v_head_size);
    p.scale = scale_ != 0 ? static_cast<double>(scale_) : 1.0 / std::sqrt(static_cast<double>(p.head_size));
    p.past = s.past;
    p.empty_is_nan = empty_is_nan_ && p.keys != 0;
    if (unidirectional_) p.right = 0;
    if (HasInput(inputs, kScoreBias)) {
      p.bias = true;
      CUDAEP_ASSIGN_OR_RETURN(
          p.bias_strides,
          MapScores(inputs[kScoreBias].dims(), Shape{s.batch, heads_, s.rows, s.keys()}, false, "attention_bias"));
    }
    if (HasInput(inputs, kMask)) {
      CUDAEP_ASSIGN_OR_RETURN(const MaskUse use,
                              UseIntMask(inputs[kMask].dims(), filter_, MaskForms::kIndex, s.past, p));
      if (mask != nullptr) *mask = use;
    }
    problem.library = library_;
    problem.new_keys = s.rows;
    problem.appends = HasInput(inputs, kPast) || has_present_;
    problem.past = s.past;
    problem.past_capacity = s.past_capacity;
    problem.capacity = s.capacity;
    problem.has_present_key = problem.has_present_value = has_present_;
    return problem;
  }

  DataType type_ = DataType::kFloat;
  int64_t heads_ = 0, hidden_ = 0, v_hidden_ = 0;
  float filter_ = 0, scale_ = 0;
  bool unidirectional_ = false, empty_is_nan_ = false, shares_ = false, has_present_ = false, library_ = false;
  ProductOptions options_;
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "Attention",
     .types = {{"T", kFloatTypesNoDouble}, {"M", DataType::kInt32}},
     .host_inputs = {kPastLength},
     .in_place = {{kPast, kPresent}},
     .make = Make<PackedAttention>},
});

}  // namespace
}  // namespace cudaep::ops
