// Layer normalisations that may move into the products around them (norm_products.h).
#pragma once

#include <map>

#include "graph/pass/fused_product.h"
#include "graph/pass/rewrite.h"
#include "kernels/gemm/many_rows.h"

namespace cudaep::graph {

// A product that may stand beside a normalisation, and its constants.
struct ProductBesideNorm {
  kernels::ManyRowsProduct sizes;
  int bias = -1, residual = -1;
};

struct NormReader {
  int node, input;
  ProductBesideNorm product;
};

// A normalisation of a product's rows.
struct MovableNorm {
  int product = -1, norm = -1;  // nodes
  ProductBesideNorm sizes;
  std::vector<double> gamma, beta;
  float epsilon = 0, scale = 1;  // the latter a power of two (kernels/gemm/normed_rows.h)
  std::vector<NormReader> readers;
  bool moves = false;
  std::vector<int64_t> products = {};  // as an attribute
  int moments = -1;                    // value
};

// By what they make. Of those that do not move only the product may take part, with a residual that is kept.
std::map<int, MovableNorm> FindMovableNorms(const Rewriter& rewrite);

// Of com.microsoft's Attention, whose queries, keys and values have so many columns together; sizes of 0 are none.
struct PackedHeads {
  int64_t heads, hidden, v_hidden;
};
PackedHeads PackedHeadsOf(const ir::Node& attention, int64_t columns);

}  // namespace cudaep::graph
