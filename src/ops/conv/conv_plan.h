// From the shapes and attributes of Conv and ConvTranspose to a convolution problem and the way it runs. Pure.
#pragma once

#include "kernels/conv/depthwise.h"
#include "kernels/conv/im2col.h"
#include "kernels/gemm/many_rows.h"
#include "lib/blas.h"
#include "lib/dnn.h"
#include "ops/conv/window.h"

namespace cudaep::ops {

inline constexpr size_t kPartAlignment = 256;  // of the parts of a workspace

struct ConvAttributes {
  WindowAttributes window;
  int64_t groups = 1;
  std::vector<int64_t> output_padding, output_shape;  // ConvTranspose
};

Result<ConvAttributes> ParseConv(const OpInfo& info);

// `x` [N,C,D...], `w` [M,C/groups,K...] (transposed: [C,M/groups,K...]), `bias` [M] or null. Types and settings are the
// caller's. Sizes of the problem may be 0.
Result<dnn::ConvProblem> PlaceConv(const ConvAttributes& attributes, Dims x, Dims w, const Dims* bias);
Result<dnn::ConvProblem> PlaceConvTranspose(const ConvAttributes& attributes, Dims x, Dims w, const Dims* bias);

// Of the spatial dimensions that a problem has.
inline int64_t ProductOfUsed(const dnn::Spatial& values, int rank) {
  int64_t product = 1;
  for (int d = 0; d < rank; ++d) product *= values[static_cast<size_t>(d)];
  return product;
}

// Dimensions of a problem's result.
Shape OutputOf(const dnn::ConvProblem& problem);

// Each weight is used once for each pixel of the output, or of the input where the convolution is transposed.
double ConvFlops(const dnn::ConvProblem& problem);

// A 1-D convolution as 2-D one with an outer dimension of 1 (option cudnn_conv1d_pad_to_nc1d).
dnn::ConvProblem WithOuterDimension(const dnn::ConvProblem& problem);

// Whether the project's own depthwise kernel takes the problem: libraries are slow at small depthwise kernels.
bool IsDepthwise(const dnn::ConvProblem& problem);
kernels::DepthwiseConv DepthwiseOf(const dnn::ConvProblem& problem);

// The product that a channels-last pointwise (1x1) convolution is, or nothing.
std::optional<kernels::ManyRowsProduct> PointwiseOf(const dnn::ConvProblem& problem);

// A convolution as column matrix and product, for what no library takes. The output pixels of an image are computed in
// chunks, so that the column matrix stays bounded.
struct ColumnConv {
  kernels::Im2col columns;
  bool direct = false;  // the input already is the column matrix: no columns are made
  int64_t images = 0;   // products follow each other
  int64_t chunk = 0;    // output pixels a product, but for the last
  int64_t pixels = 0;   // output pixels of an image
  int64_t column_elems = 0;
  int64_t packed_elems = 0;            // of weights that are brought into order first
  int64_t x_stride = 0, y_stride = 0;  // elements between images
  blas::GemmProblem product;           // of a full chunk

  blas::GemmProblem ProductOf(int64_t chunk_pixels) const;
};
// `workspace_limit_bytes`: chunks get smaller to stay below it, down to one pixel. `may_be_direct`: false where the
// input never is the column matrix. `packed_weights`: they are turned back first.
ColumnConv PlaceColumns(const dnn::ConvProblem& problem, size_t workspace_limit_bytes = SIZE_MAX,
                        bool may_be_direct = true, bool packed_weights = false);

}  // namespace cudaep::ops
