// com.microsoft's GatedDeltaNet: linear attention over tokens of all batch entries one after the other, [tokens, heads,
// size] or one packed tensor of them, with gates worked out here, and the transitions of the first tokens as a result.
// Offsets that leave the tokens are cut there: the device cannot refuse a value.
#include <cmath>

#include "kernels/attention/linear_attention.h"
#include "ops/attention/linear_keys.h"
#include "ops/optional_input.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input : int {
  kQuery,
  kKey,
  kValue,
  kOffsets,
  kDecay,
  kBeta,
  kState,
  kALog,
  kBias,
  kCaptured,
  kActive,
};
enum Output : int { kResult, kFinalState, kUpdates };

class GatedDeltaNet final : public Operator {
 public:
  static Result<std::unique_ptr<GatedDeltaNet>> Create(const OpInfo& info) {
    auto op = std::make_unique<GatedDeltaNet>();
    kernels::LinearAttention& p = op->problem_;
    p.type = info.input_type(kQuery);
    p.value_rows = true;
    p.scale = info.FloatOr("scale", 0);
    p.bound = info.FloatOr("gate_lower_bound", -5);
    p.normalized = info.IntOr("qk_l2_norm", 0) != 0;
    p.capacity = info.IntOr("state_update_capacity", 0);
    if (p.capacity < 0 || p.capacity > 8)
      return InvalidArgument("state_update_capacity ", p.capacity, " not in [0, 8]");
    if (info.has_input(kCaptured) != (p.capacity > 0)) {
      return InvalidArgument("capture_count goes with a positive state_update_capacity, which is ", p.capacity);
    }
    const std::string rule = info.StringOr("update_rule", "gated_delta");
    op->gated_ = rule == "gated" || rule == "gated_delta";
    p.delta = rule == "delta" || rule == "gated_delta";
    if (!op->gated_ && !p.delta && rule != "linear") return InvalidArgument("update_rule '", rule, "'");
    if (info.has_input(kDecay) != op->gated_) return InvalidArgument("update_rule ", rule, " and input decay disagree");
    if (info.has_input(kBeta) != p.delta) return InvalidArgument("update_rule ", rule, " and input beta disagree");
    if (op->gated_ || p.delta) p.gate_type = info.input_type(op->gated_ ? kDecay : kBeta);
    if (p.gate_type != p.type && p.gate_type != DataType::kFloat) {
      return NotSupported("decay and beta of type ", DataTypeName(p.gate_type), " beside ", DataTypeName(p.type));
    }
    const std::string gate = info.StringOr("gate_activation", "none"), beta = info.StringOr("beta_activation", "none");
    if (gate == "softplus" || gate == "qwen") {
      p.gate = kernels::LinearGate::kSoftplus;
    } else if (gate == "sigmoid" || gate == "kda") {
      p.gate = kernels::LinearGate::kSigmoid;
      p.epsilon = 1e-6f;  // as the host's CPU provider has it, and 1e-12 with other gates
    } else if (gate != "none") {
      return InvalidArgument("gate_activation '", gate, "'");
    }
    if (!op->gated_) p.gate = kernels::LinearGate::kNone;
    if (p.gate != kernels::LinearGate::kNone && (!info.has_input(kALog) || !info.has_input(kBias))) {
      return InvalidArgument("gate_activation ", gate, " needs a_log and dt_bias");
    }
    if (beta != "none" && beta != "sigmoid") return InvalidArgument("beta_activation '", beta, "'");
    p.sigmoid_beta = beta == "sigmoid";
    if (info.has_input(kKey) != info.has_input(kValue)) return InvalidArgument("key and value go together");
    op->packed_ = !info.has_input(kKey);
    if (!info.has_input(kState) && (op->packed_ || !info.has_input(kOffsets))) {
      return InvalidArgument("initial_state is needed with packed heads, and without cu_seqlens");
    }
    CUDAEP_RETURN_IF_ERROR(CheckStatedLinearKeys(info, op->packed_ ? kState : kQuery, 1));
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const kernels::LinearAttention p, Problem(inputs));
    outputs[kResult].Assign(inputs[kQuery].dims().first(TokenRank(inputs)));
    outputs[kResult].Append(p.result_heads());
    outputs[kResult].Append(p.value_size);
    if (outputs.size() > kFinalState) outputs[kFinalState] = StateShape(p);
    if (outputs.size() > kUpdates) outputs[kUpdates] = Shape{p.batch, p.capacity * UpdateWidth(p)};
    return Status::Ok();
  }

  Status Enqueue(const Plan&, const OpContext& context) const override {
    CUDAEP_ASSIGN_OR_RETURN(kernels::LinearAttention p, Problem(context.inputs));
    const auto optional = [&](int index) { return InputAt(context.inputs, index).data; };
    auto* const updates =
        context.shapes.size() > kUpdates && p.capacity > 0 ? context.output<float>(kUpdates) : nullptr;
    const TensorView active = InputAt(context.inputs, kActive);
    p.capture = updates != nullptr && (!active.present() || active.host<int32_t>()[0] != 0);
    if (updates != nullptr) {
      const auto bytes = static_cast<size_t>(p.batch * p.capacity * UpdateWidth(p)) * sizeof(float);
      CUDAEP_RETURN_IF_ERROR(device::MemsetAsync(updates, 0, bytes, context.stream()));
    }
    if (optional(kOffsets) != nullptr) {  // which may leave tokens out
      const auto bytes = static_cast<size_t>(context.shapes[kResult].elems()) * SizeOf(p.type);
      CUDAEP_RETURN_IF_ERROR(device::MemsetAsync(context.output(kResult), 0, bytes, context.stream()));
    }
    const size_t elem = SizeOf(p.type);
    const auto* const query = context.input<std::byte>(kQuery);
    const auto after_query = static_cast<size_t>(p.q_heads * p.key_size) * elem;
    return kernels::LaunchLinearAttention(
        p,
        {.q = query,
         .k = packed_ ? query + after_query : optional(kKey),
         .v = packed_ ? query + 2 * after_query : optional(kValue),
         .decay = optional(kDecay),
         .beta = optional(kBeta),
         .a = static_cast<const float*>(optional(kALog)),
         .bias = static_cast<const float*>(optional(kBias)),
         .offsets = static_cast<const int32_t*>(optional(kOffsets)),
         .captured = static_cast<const int32_t*>(optional(kCaptured)),
         .past = optional(kState),
         .present = context.shapes.size() > kFinalState ? context.output(kFinalState) : nullptr,
         .y = context.output(kResult),
         .updates = updates},
        context.runtime.device_info(), context.stream());
  }

 private:
  static Shape StateShape(const kernels::LinearAttention& p) { return {p.batch, p.heads, p.value_size, p.key_size}; }

  static int64_t UpdateWidth(const kernels::LinearAttention& p) {
    const int64_t decays = p.heads * (p.decay == kernels::LinearDecay::kRow ? p.key_size : 1);
    return decays + p.k_heads * p.key_size + p.heads * p.value_size;
  }

  // Dimensions ahead of heads: [tokens], or [batch, tokens of each].
  size_t TokenRank(TensorViews inputs) const { return inputs[kQuery].dims().size() - (packed_ ? 1 : 2); }

  Result<kernels::LinearAttention> Problem(TensorViews inputs) const {
    kernels::LinearAttention p = problem_;
    const Dims q = inputs[kQuery].dims();
    const size_t rank = q.size() - (packed_ ? 1 : 2);
    if (q.size() < (packed_ ? 2 : 3) || rank > 2) return InvalidArgument("query ", q, " has other dimensions");
    const Dims tokens = q.first(rank);
    p.tokens = ElementCount(tokens);
    CUDAEP_RETURN_IF_ERROR(packed_ ? PlacePacked(inputs, p) : PlaceHeads(inputs, tokens, p));
    if (p.q_heads <= 0 || p.key_size <= 0 || p.heads <= 0 || p.heads % p.q_heads != 0) {
      return InvalidArgument(p.heads, " heads of value are no multiple of ", p.q_heads, " heads of query");
    }
    CUDAEP_RETURN_IF_ERROR(CheckLinearKeySize(p.key_size));
    if (p.scale == 0) p.scale = 1.0f / std::sqrt(static_cast<float>(p.key_size));
    const TensorView offsets = InputAt(inputs, kOffsets), state = InputAt(inputs, kState);
    p.batch = offsets.present() ? offsets.elems() - 1 : state.rank == 0 ? 0 : state.dim[0];
    if (offsets.present() && (rank != 1 || offsets.rank != 1 || p.batch < 0)) {
      return InvalidArgument("cu_seqlens ", offsets.dims(), " must be one list, of tokens in one dimension");
    }
    if (state.present() && !SameDims(state.dims(), StateShape(p))) {
      return InvalidArgument("initial_state ", state.dims(), " must be ", StateShape(p).dims());
    }
    if (!offsets.present() && (p.batch == 0 ? p.tokens != 0 : p.tokens % p.batch != 0)) {
      return InvalidArgument(p.tokens, " tokens cannot be shared out to ", p.batch, " entries");
    }
    if (rank == 2 && tokens[0] != p.batch) return InvalidArgument("query ", q, " has another batch than the state");
    CUDAEP_RETURN_IF_ERROR(PlaceGates(inputs, tokens, p));
    const TensorView captured = InputAt(inputs, kCaptured);
    if (captured.present() && !SameDims(captured.dims(), Shape{p.batch})) {
      return InvalidArgument("capture_count ", captured.dims(), " must be [", p.batch, "]");
    }
    const TensorView active = InputAt(inputs, kActive);
    if (active.present() && active.elems() != 1) {
      return InvalidArgument("state_update_active ", active.dims(), " must have one element");
    }
    return p;
  }

  static Status PlacePacked(TensorViews inputs, kernels::LinearAttention& p) {
    const Dims q = inputs[kQuery].dims(), state = inputs[kState].dims();
    if (state.size() != 4) return InvalidArgument("initial_state ", state, " must have 4 dimensions");
    p.heads = state[1], p.value_size = state[2], p.key_size = state[3];
    const int64_t keys = q.back() - p.heads * p.value_size;
    if (keys <= 0 || p.key_size == 0 || keys % (2 * p.key_size) != 0) {
      return InvalidArgument("packed query ", q, " does not fit initial_state ", state);
    }
    p.q_heads = p.k_heads = keys / (2 * p.key_size);
    p.q_stride = p.k_stride = p.v_stride = q.back();
    return Status::Ok();
  }

  static Status PlaceHeads(TensorViews inputs, Dims tokens, kernels::LinearAttention& p) {
    const Dims q = inputs[kQuery].dims(), k = inputs[kKey].dims(), v = inputs[kValue].dims();
    if (!SameDims(q, k)) return InvalidArgument("query ", q, " and key ", k, " must have one shape");
    if (v.size() != q.size() || !SameDims(v.first(tokens.size()), tokens)) {
      return InvalidArgument("value ", v, " must have the tokens of query ", q);
    }
    p.q_heads = p.k_heads = q[q.size() - 2], p.key_size = q.back();
    p.heads = v[v.size() - 2], p.value_size = v.back();
    p.q_stride = p.k_stride = p.q_heads * p.key_size, p.v_stride = p.heads * p.value_size;
    return Status::Ok();
  }

  Status PlaceGates(TensorViews inputs, Dims tokens, kernels::LinearAttention& p) const {
    Shape of_heads(tokens);
    of_heads.Append(p.heads);
    Shape of_rows(of_heads);
    of_rows.Append(p.key_size);
    if (gated_) {
      const Dims decay = inputs[kDecay].dims();
      p.decay = SameDims(decay, of_heads) ? kernels::LinearDecay::kHead : kernels::LinearDecay::kRow;
      if (p.decay == kernels::LinearDecay::kRow && !SameDims(decay, of_rows)) {
        return InvalidArgument("decay ", decay, " must be ", of_heads.dims(), " or ", of_rows.dims());
      }
    }
    if (p.delta && !SameDims(inputs[kBeta].dims(), of_heads)) {
      return InvalidArgument("beta ", inputs[kBeta].dims(), " must be ", of_heads.dims());
    }
    if (p.gate == kernels::LinearGate::kNone) return Status::Ok();
    const int64_t biases = inputs[kBias].elems();
    p.row_bias = p.decay == kernels::LinearDecay::kRow && biases == p.heads * p.key_size && p.key_size > 1;
    if (inputs[kALog].elems() != p.heads || (biases != p.heads && !p.row_bias)) {
      return InvalidArgument("a_log ", inputs[kALog].dims(), " and dt_bias ", inputs[kBias].dims(), " do not fit ",
                             p.heads, " heads");
    }
    return Status::Ok();
  }

  kernels::LinearAttention problem_;  // what attributes and types say
  bool gated_ = false, packed_ = false;
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "GatedDeltaNet",
     .types =
         {{"T", kFloatTypesNoDouble}, {"TS", DataType::kFloat}, {"TG", kFloatTypesNoDouble}, {"TI", DataType::kInt32}},
     .host_inputs = {kActive},
     .in_place = {{kState, kFinalState}},
     .make = Make<GatedDeltaNet>},
});

}  // namespace
}  // namespace cudaep::ops
