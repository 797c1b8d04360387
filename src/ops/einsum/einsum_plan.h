// The steps of an Einsum: sums, permuted copies, element-wise products and matrix products between buffers.
//
// Operands are summed over labels of their own first, then contracted in pairs, the cheapest pair first. A pair without
// a label to sum over is an element-wise product.
#pragma once

#include <variant>

#include "kernels/elementwise/broadcast.h"
#include "kernels/movement/strided_copy.h"
#include "kernels/movement/transpose_plan.h"
#include "kernels/reduce/reduce.h"
#include "ops/einsum/contraction.h"
#include "ops/einsum/equation.h"
#include "ops/gemm/matrix_product.h"
#include "ops/operator.h"

namespace cudaep::ops {

// Where a tensor lies: an input, the output, or scratch memory.
struct EinsumBuffer {
  bool is_input = false;
  int input = 0;
  bool is_output = false;
  size_t scratch = 0;
};

struct ZeroStep {};
struct PermuteStep {
  kernels::TransposePlan transpose;
};
struct GatherStep {  // of a diagonal
  kernels::StridedCopy copy;
};
struct SumStep {
  PlanPtr plan;  // a ReductionPlan
  kernels::ReduceKernel kernel = nullptr;
};
struct MultiplyStep {
  kernels::Broadcast<2> broadcast;
};
struct ProductStep {
  MatrixProduct product;
  std::vector<GemmOffsets> launches;  // in bytes
};

struct EinsumStep {
  EinsumBuffer a, b, to;
  std::variant<ZeroStep, PermuteStep, GatherStep, SumStep, MultiplyStep, ProductStep> action;
};

struct EinsumPlan : Plan {
  std::vector<EinsumStep> steps;
  size_t library_scratch = 0;  // of products and sums, one at a time
};

// For an output with elements.
Result<PlanPtr> PlanEinsum(const EinsumLabels& labels, DataType type, const ProductOptions& options,
                           const PlanContext& context);

}  // namespace cudaep::ops
