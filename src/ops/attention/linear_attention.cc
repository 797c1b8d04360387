// com.microsoft's LinearAttention: q [B, T, heads * key size], k and v likewise, and a state of each head.
#include "kernels/attention/linear_attention.h"

#include <cmath>

#include "ops/attention/linear_keys.h"
#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input : int { kQuery, kKey, kValue, kPast, kDecay, kBeta };

class LinearAttention final : public Operator {
 public:
  static Result<std::unique_ptr<LinearAttention>> Create(const OpInfo& info) {
    auto op = std::make_unique<LinearAttention>();
    op->problem_.type = op->problem_.gate_type = info.input_type(kQuery);
    op->problem_.state_type = info.output_type(1);
    op->problem_.q_heads = info.IntOr("q_num_heads", 0);
    op->problem_.heads = info.IntOr("kv_num_heads", 0);
    op->problem_.scale = info.FloatOr("scale", 0);
    op->state_window_ = info.IntOr("state_window", 0);
    const int64_t q_heads = op->problem_.q_heads, heads = op->problem_.heads;
    if (q_heads <= 0 || heads <= 0 || (q_heads % heads != 0 && heads % q_heads != 0)) {
      return InvalidArgument("q_num_heads ", q_heads, " and kv_num_heads ", heads,
                             " must be positive, one a multiple of the other");
    }
    CUDAEP_RETURN_IF_ERROR(CheckStatedLinearKeys(info, kQuery, q_heads));
    if (op->state_window_ < 0 || op->state_window_ > 8) {
      return InvalidArgument("state_window ", op->state_window_, " is not in [0, 8]");
    }
    const std::string rule = info.StringOr("update_rule", "gated_delta");
    op->gated_ = rule == "gated" || rule == "gated_delta";
    op->problem_.delta = rule == "delta" || rule == "gated_delta";
    if (!op->gated_ && !op->problem_.delta && rule != "linear") return InvalidArgument("update_rule '", rule, "'");
    if (op->gated_ && !info.has_input(kDecay)) return InvalidArgument("update_rule ", rule, " needs decay");
    if (op->problem_.delta && !info.has_input(kBeta)) return InvalidArgument("update_rule ", rule, " needs beta");
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const kernels::LinearAttention p, Problem(inputs));
    const int64_t tokens = inputs[kQuery].dim[1];
    outputs[0] = Shape{p.batch, tokens, p.result_heads() * p.value_size};
    outputs[1] = StateShape(p);
    return Status::Ok();
  }

  Status Enqueue(const Plan&, const OpContext& context) const override {
    CUDAEP_ASSIGN_OR_RETURN(const kernels::LinearAttention p, Problem(context.inputs));
    const auto optional = [&](int index) { return InputAt(context.inputs, index).data; };
    return kernels::LaunchLinearAttention(p,
                                          {.q = context.input(kQuery),
                                           .k = context.input(kKey),
                                           .v = context.input(kValue),
                                           .decay = optional(kDecay),
                                           .beta = optional(kBeta),
                                           .past = optional(kPast),
                                           .present = context.output(1),
                                           .y = context.output(0)},
                                          context.runtime.device_info(), context.stream());
  }

 private:
  Shape StateShape(const kernels::LinearAttention& p) const {
    if (state_window_ == 0) return {p.batch, p.heads, p.key_size, p.value_size};
    return {p.window, p.batch, p.heads, p.key_size, p.value_size};
  }

  Result<kernels::LinearAttention> Problem(TensorViews inputs) const {
    kernels::LinearAttention p = problem_;
    const Dims q = inputs[kQuery].dims(), k = inputs[kKey].dims(), v = inputs[kValue].dims();
    if (q.size() != 3 || k.size() != 3 || v.size() != 3 || !SameDims(q.first(2), k.first(2)) ||
        !SameDims(q.first(2), v.first(2))) {
      return InvalidArgument("query ", q, ", key ", k, " and value ", v, " must be [batch, tokens, heads * size]");
    }
    p.batch = q[0], p.tokens = q[0] * q[1];
    p.key_size = q[2] / p.q_heads, p.value_size = v[2] / p.heads;
    if (p.key_size == 0 || q[2] % p.q_heads != 0 || v[2] % p.heads != 0) {
      return InvalidArgument("query ", q, " and value ", v, " do not have ", p.q_heads, " and ", p.heads, " heads");
    }
    p.k_heads = k[2] / p.key_size;
    if (p.k_heads == 0 || k[2] % p.key_size != 0 || p.heads % p.k_heads != 0) {
      return InvalidArgument("key ", k, " does not have heads of ", p.key_size, " elements for ", p.heads, " states");
    }
    p.q_stride = q[2], p.k_stride = k[2], p.v_stride = v[2];
    CUDAEP_RETURN_IF_ERROR(CheckLinearKeySize(p.key_size));
    p.window = std::max<int64_t>(state_window_, 1);
    if (p.scale == 0) p.scale = 1.0f / std::sqrt(static_cast<float>(p.key_size));
    if (gated_) {
      const Dims decay = inputs[kDecay].dims();
      p.decay = decay.size() == 3 && decay[2] == p.heads ? kernels::LinearDecay::kHead : kernels::LinearDecay::kRow;
      if (decay.size() != 3 || !SameDims(decay.first(2), q.first(2)) ||
          (decay[2] != p.heads && decay[2] != p.heads * p.key_size)) {
        return InvalidArgument("decay ", decay, " must end with ", p.heads, " or ", p.heads * p.key_size, " of ", q);
      }
    }
    if (p.delta) {
      const Dims beta = inputs[kBeta].dims();
      if (beta.size() != 3 || !SameDims(beta.first(2), q.first(2)) || (beta[2] != p.heads && beta[2] != 1)) {
        return InvalidArgument("beta ", beta, " must end with ", p.heads, " or 1 of ", q);
      }
      p.shared_beta = beta[2] == 1;
    }
    if (HasInput(inputs, kPast) && !SameDims(inputs[kPast].dims(), StateShape(p))) {
      return InvalidArgument("past_state ", inputs[kPast].dims(), " must be ", StateShape(p).dims());
    }
    return p;
  }

  kernels::LinearAttention problem_;  // what attributes and types say
  int64_t state_window_ = 0;
  bool gated_ = false;
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "LinearAttention",
     .types = {{"T", kFloatTypesNoDouble}, {"S", kFloatTypesNoDouble}},
     .in_place = {{kPast, 1}},
     .make = Make<LinearAttention>},
});

}  // namespace
}  // namespace cudaep::ops
