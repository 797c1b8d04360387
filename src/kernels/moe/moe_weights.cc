// Sizes of weights of a mixture of experts, and the arguments of its kernels.
#include <bit>

#include "kernels/moe/moe_arguments.h"
#include "kernels/pack.h"

namespace cudaep::kernels {

int64_t MoeProduct::weight_row_bytes() const {
  return bits == 0 ? k * static_cast<int64_t>(SizeOf(type)) : k * bits / 8;
}

MoeArguments MoeArgumentsOf(const MoeProduct& product, const MoeProductPointers& at) {
  const int64_t matrix_rows = product.gate == MoeGate::kSeparate ? product.n : product.rows();
  const int64_t zero_points = product.block == 0 ? matrix_rows : product.blocks();
  const bool aligned = IsAligned(at.a, kPackBytes) && IsAligned(at.weights.weight[0], kPackBytes) &&
                       IsAligned(at.weights.weight[1], kPackBytes);
  return {.at = at,
          .tokens = product.tokens,
          .n = product.n,
          .k = product.k,
          .columns = product.rows(),
          .matrix_rows = matrix_rows,
          .row_bytes = product.weight_row_bytes(),
          .blocks = product.blocks(),
          .zero_bytes = (zero_points * product.bits + 7) / 8,
          .log_block = product.block == 0 ? kMoeWholeRows : std::countr_zero(static_cast<uint64_t>(product.block)),
          .top_k = product.top_k,
          .bits = product.bits,
          .gate = product.gate,
          .activation = product.activation,
          .second = product.second,
          .limit_after = product.limit_after,
          .packs = aligned && product.k % 8 == 0,
          .alpha = product.alpha,
          .beta = product.beta,
          .limit = product.limit};
}

}  // namespace cudaep::kernels
