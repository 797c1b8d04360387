// Gated products with weights of few bits (kernels/quant/gated_nbits.h).
#pragma once

#include "graph/pass/rewrite.h"

namespace cudaep::graph {

// activation(x W1) * (x W2), where both products are MatMulNBits with constants of one form, without groups or bias,
// and nobody else reads what lies between: GatedMatMulNBits. The activation has no parameters; com.microsoft's SwiGLU
// is one where it is SiLU and a product.
void FuseGatedNBits(const Rewriter& rewrite, int index);

}  // namespace cudaep::graph
