// What the attributes and inputs of a mixture of experts say, and its sizes.
#pragma once

#include "core/shape.h"
#include "kernels/moe/moe.h"
#include "ops/op_info.h"

namespace cudaep::ops {

// Where the inputs of a matrix of weights are; -1: the operator has none.
struct MoeMatrixInputs {
  int weight, scale, bias, zero;
};

struct MoeForm {
  DataType type = DataType::kFloat;
  int top_k = 1;
  bool normalize = false, sparse_mixer = false;
  kernels::MoeGate gate = kernels::MoeGate::kNone;
  kernels::MoeActivation activation = kernels::MoeActivation::kRelu;
  float alpha = 1, beta = 0, limit = 0;
  bool limit_after = false;
  int bits[3] = {};   // of the weights of fc1, fc2 and fc3; 0: of `type`
  int64_t block = 0;  // elements that share a scale; 0: a row of weights
  MoeMatrixInputs inputs[3] = {};
  int router_weights = -1;
};

struct MoeSizes {
  int64_t tokens, experts, hidden, inner;
};

// The form of a MoE or QMoE node. kNotSupported for what is not offered, by name.
Result<MoeForm> ParseMoe(const OpInfo& info);

// The sizes that input [tokens..., hidden], router_probs [tokens, experts] and fc2 [experts, hidden, inner (packed)]
// say.
Result<MoeSizes> MoeSizesOf(const MoeForm& form, Dims input, Dims router, Dims fc2);

}  // namespace cudaep::ops
