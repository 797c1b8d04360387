// From the shapes of MatMul, FusedMatMul and Gemm to library problems. Pure.
#pragma once

#include <vector>

#include "core/shape.h"
#include "lib/blas.h"

namespace cudaep::ops {

// How one operand of a matrix product is read.
struct OperandForm {
  bool transpose = false;        // its last two dimensions are swapped; ignored for rank 1
  bool transpose_batch = false;  // its first dimension goes behind the batch dimensions; ignored below rank 3
};

// Element offsets of one launch into A, B and Y.
struct GemmOffsets {
  int64_t a = 0, b = 0, y = 0;
  bool operator==(const GemmOffsets&) const = default;
};

// One problem, launched at each of the offsets.
struct MatMulGeometry {
  Shape output;
  blas::GemmProblem problem;  // types, alpha and flags are the caller's
  std::vector<GemmOffsets> launches;
};

// Puts the largest dimensions into the problem; the offsets of the launches that the others make, at least one.
std::vector<GemmOffsets> PlaceBatch(std::vector<blas::BatchDim> dims, blas::GemmProblem* problem);

// numpy.matmul: rank 1 operands are promoted and their dimension dropped again, batch dimensions broadcast. Those that
// strides describe together are one; the largest three go into the problem, the rest become launches.
Result<MatMulGeometry> PlaceMatMul(Dims a, OperandForm a_form, Dims b, OperandForm b_form);

// How Gemm's C meets the product.
enum class GemmAddend : uint8_t {
  kNone,       // absent, or beta is 0
  kBias,       // one value a column, as it is: the product's epilogue
  kResidual,   // of the result's shape: the product's epilogue reads it where it lies
  kBroadcast,  // written out as one first
};

struct GemmGeometry {
  blas::GemmProblem problem;
  GemmAddend addend = GemmAddend::kNone;
  int64_t c_row_stride = 0, c_column_stride = 0;
};

// `c` null when absent. C must broadcast to [m, n] in one direction.
Result<GemmGeometry> PlaceGemm(Dims a, bool transpose_a, Dims b, bool transpose_b, const Dims* c, float beta);

}  // namespace cudaep::ops
