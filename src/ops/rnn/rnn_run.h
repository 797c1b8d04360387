// Runs a recurrent network: one product of all elements with the input weights, then step by step a product of the
// state with the recurrent weights and what follows. Where those are packed and the sizes are usual that is one launch
// (two for a GRU that resets first, kernels/rnn/fused_step.h); otherwise a library's product and one launch.
//
// Operators describe the network as a problem and give pointers; another way to run it (a library's) would be chosen
// here.
#pragma once

#include "kernels/rnn/rnn.h"
#include "ops/gemm/matrix_product.h"
#include "ops/operator.h"
#include "ops/rnn/rnn_attributes.h"

namespace cudaep::ops {

struct RnnProblem {
  DataType type = DataType::kFloat;
  kernels::RnnCell cell = kernels::RnnCell::kRnn;
  int64_t input = 0;  // features
  kernels::RnnShape shape;

  int64_t gates() const { return kernels::GatesOf(cell); }
  // GRU that multiplies the state with r before its product: two products a step.
  bool resets_first() const { return cell == kernels::RnnCell::kGru && !shape.linear_before_reset; }
};

struct RnnRunPlan : Plan {
  RnnProblem problem;
  MatrixProduct input, recurrent, reset;
  size_t library = 0, x_product = 0, h_product = 0, reset_product = 0, h = 0, c = 0, reset_h = 0;
  bool fused = false;
  size_t rows = 0, row_bytes = 0;  // of the states that fused steps read, one behind the other
};

// Tensors of the node, null where it has none; lengths may be on the device.
struct RnnTensors {
  const void *x = nullptr, *w = nullptr, *r = nullptr, *bias = nullptr;
  const int32_t* lengths = nullptr;
  const void *initial_h = nullptr, *initial_c = nullptr, *peephole = nullptr;
  void *y = nullptr, *y_h = nullptr, *y_c = nullptr;
};

// `packed`: R is what PackRecurrent made of it (rnn_pack.h).
Result<PlanPtr> PlanRnn(const RnnProblem& problem, const ProductOptions& options, bool packed,
                        const PlanContext& context);
Status EnqueueRnn(const RnnRunPlan& plan, const OpContext& context, const RnnTensors& at);

}  // namespace cudaep::ops
