// What the kernels of a mixture of experts' products are launched with.
#pragma once

#include "kernels/moe/moe.h"

namespace cudaep::kernels {

inline constexpr int32_t kMoeWholeRows = 63;

struct MoeArguments {
  MoeProductPointers at;
  int64_t tokens, n, k, columns;           // columns: rows of weights that a block's results are made of, n or 2 n
  int64_t matrix_rows, row_bytes, blocks;  // of the weights of an expert in one matrix
  int64_t zero_bytes;                      // of a row of zero points
  int32_t log_block, top_k, bits;          // log_block: kMoeWholeRows where a row has one scale
  MoeGate gate;
  MoeActivation activation;
  bool second, limit_after, packs;  // packs: eight weights, and sixteen bytes of a, may be loaded at once
  uint8_t padding[3] = {};          // whole words: it would hold whatever the stack did, and graphs compare arguments
  float alpha, beta, limit;
};

MoeArguments MoeArgumentsOf(const MoeProduct& product, const MoeProductPointers& at);

}  // namespace cudaep::kernels
