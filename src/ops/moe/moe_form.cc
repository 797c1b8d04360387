#include "ops/moe/moe_form.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace cudaep::ops {
namespace {

using kernels::MoeActivation;
using kernels::MoeGate;

constexpr MoeMatrixInputs kPlain[3] = {{2, -1, 3, -1}, {4, -1, 5, -1}, {6, -1, 7, -1}};
constexpr MoeMatrixInputs kQuantized[3] = {{2, 3, 4, 11}, {5, 6, 7, 12}, {8, 9, 10, 13}};
constexpr int kRouterWeights = 14, kFirstFloatScale = 15;  // of QMoE

Status ParseActivation(const OpInfo& info, MoeForm& form) {
  constexpr struct {
    const char* name;
    MoeActivation activation;
  } kActivations[] = {{"identity", MoeActivation::kIdentity}, {"relu", MoeActivation::kRelu},
                      {"relu2", MoeActivation::kRelu2},       {"gelu", MoeActivation::kGelu},
                      {"silu", MoeActivation::kSilu},         {"swiglu", MoeActivation::kSwiglu},
                      {"geglu", MoeActivation::kGelu}};
  const std::string name = info.StringOr("activation_type", "relu");
  const auto* const found = std::ranges::find_if(kActivations, [&](const auto& one) { return name == one.name; });
  if (found == std::end(kActivations)) return NotSupported("activation_type ", name);
  form.activation = found->activation;
  const bool swiglu = name == "swiglu", gated = swiglu || name == "geglu",
             third = info.has_input(form.inputs[2].weight);
  const int64_t fusion = info.IntOr("swiglu_fusion", 0);
  if (gated && (fusion < 0 || fusion > 2)) return InvalidArgument("swiglu_fusion ", fusion, " is none of 0, 1 and 2");
  const bool fused = gated && fusion != 0;
  if (fused && third) return InvalidArgument(name, " with swiglu_fusion ", fusion, " has no fc3_experts_weights");
  if (name == "geglu" && !fused) return InvalidArgument("geglu needs swiglu_fusion 1 or 2");
  if (swiglu && !fused && !third) return InvalidArgument("swiglu without swiglu_fusion needs fc3_experts_weights");
  if (fused) form.gate = fusion == 1 ? MoeGate::kInterleaved : MoeGate::kHalves;
  if (!fused && third) form.gate = MoeGate::kSeparate;
  form.alpha = info.FloatOr("activation_alpha", 1.0f);
  form.beta = info.FloatOr("activation_beta", 0.0f);
  form.limit = info.FloatOr("swiglu_limit", std::numeric_limits<float>::infinity());
  form.limit_after = info.BoolOr("swiglu_limit_after_activation", false);
  if (!(form.limit >= 0)) return InvalidArgument("swiglu_limit ", form.limit, " must not be negative");
  if (form.limit_after && !swiglu) return InvalidArgument("swiglu_limit_after_activation is of swiglu, not of ", name);
  return Status::Ok();
}

Status ParseQuantization(const OpInfo& info, MoeForm& form) {
  const std::string kind = info.StringOr("quant_type", "int");
  if (kind != "int") return NotSupported("quant_type ", kind, "; int is offered");
  const int64_t layout = info.IntOr("weights_prepacked", -1);
  // -1 leaves it to the provider: weights as they are quantized, as the CPU provider takes them.
  if (layout != -1 && layout != 0) return NotSupported("weights_prepacked ", layout, ", the layout of another kernel");
  for (int i = kFirstFloatScale; i < info.input_count(); ++i) {
    if (info.has_input(i)) return NotSupported("input ", i, ", which quant_type int has not");
  }
  constexpr const char* kBits[3] = {"fc1_expert_weight_bits", "fc2_expert_weight_bits", "fc3_expert_weight_bits"};
  const int64_t all = info.IntOr("expert_weight_bits", 4);
  for (int i = 0; i < 3; ++i) {
    const int64_t bits = info.IntOr(kBits[i], all);
    if (bits != 2 && bits != 4 && bits != 8) return NotSupported(kBits[i], ' ', bits, "; 2, 4 and 8 are offered");
    form.bits[i] = static_cast<int>(bits);
    const bool used = i < 2 || form.gate == MoeGate::kSeparate;
    if (used && !info.has_input(form.inputs[i].scale)) return InvalidArgument("fc", i + 1, "_scales is missing");
    if (used && info.input_type(form.inputs[i].scale) != form.type) {
      return NotSupported("fc", i + 1, "_scales of type ", DataTypeName(info.input_type(form.inputs[i].scale)),
                          " beside ", DataTypeName(form.type));
    }
  }
  if (form.gate == MoeGate::kSeparate && form.bits[0] != form.bits[2]) {
    return NotSupported("fc3_expert_weight_bits ", form.bits[2], " beside ", form.bits[0], " of fc1");
  }
  form.block = info.IntOr("block_size", 0);
  if (form.block == 0) return Status::Ok();
  if (form.block < 16 || form.block > (1 << 30) || !std::has_single_bit(static_cast<uint64_t>(form.block))) {
    return InvalidArgument("block_size ", form.block, " must be a power of two from 16 on");
  }
  return Status::Ok();
}

}  // namespace

Result<MoeForm> ParseMoe(const OpInfo& info) {
  MoeForm form;
  const bool quantized = info.op_type() == "QMoE";
  form.type = info.input_type(0);
  std::ranges::copy(quantized ? kQuantized : kPlain, form.inputs);
  const int64_t top_k = info.IntOr("k", 1);
  if (top_k < 1 || top_k > kernels::kMoeMostExperts) return InvalidArgument("k ", top_k, " experts of a token");
  form.top_k = static_cast<int>(top_k);
  form.normalize = info.BoolOr("normalize_routing_weights", false);
  form.sparse_mixer = info.BoolOr("use_sparse_mixer", false);
  if (form.sparse_mixer && form.top_k != 2) return InvalidArgument("use_sparse_mixer needs k 2, not ", form.top_k);
  CUDAEP_RETURN_IF_ERROR(ParseActivation(info, form));
  if (!quantized) return form;
  form.router_weights = kRouterWeights;
  CUDAEP_RETURN_IF_ERROR(ParseQuantization(info, form));
  return form;
}

Result<MoeSizes> MoeSizesOf(const MoeForm& form, Dims input, Dims router, Dims fc2) {
  if (input.size() != 2 && input.size() != 3) {
    return InvalidArgument("input ", input, " has ", input.size(), " dimensions, not 2 or 3");
  }
  if (fc2.size() != 3) return InvalidArgument("fc2_experts_weights ", fc2, " has not 3 dimensions");
  const int64_t tokens = input.size() == 2 ? input[0] : input[0] * input[1];
  if (router.size() != 2 || router[0] != tokens) {
    return InvalidArgument("router_probs ", router, " is no matrix with a row for each of ", tokens, " tokens");
  }
  if (form.top_k > router[1]) return InvalidArgument("k ", form.top_k, " of ", router[1], " experts");
  if (router[1] > kernels::kMoeMostExperts) {
    return NotSupported(router[1], " experts; ", kernels::kMoeMostExperts, " are offered");
  }
  const int64_t inner = form.bits[1] == 0 ? fc2[2] : fc2[2] * 8 / form.bits[1];
  return MoeSizes{tokens, router[1], input[input.size() - 1], inner};
}

}  // namespace cudaep::ops
