// What the operators that embed tokens share: the sum of rows of tables, and perhaps its layer normalisation.
#pragma once

#include "kernels/norm/embedding.h"
#include "ops/norm/layer_norm.h"

namespace cudaep::ops {

struct EmbeddingPlan : LayerNormPlan {
  bool in_one_launch = true;  // otherwise the sum and its normalisation are one each, with the sum in scratch memory
  size_t wide_sum = 0;
};

// Of embeddings that are normalised, after `rows` and `elems`.
Status PlanEmbeddingNorm(DataType type, const device::DeviceInfo& device, EmbeddingPlan* plan);

Status EnqueueEmbeddingNorm(const EmbeddingPlan& plan, const kernels::EmbeddingArgs& args,
                            const kernels::EmbeddingNorm& norm, const OpContext& context);

}  // namespace cudaep::ops
